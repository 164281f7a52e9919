"""The reward sums: is the answer of a mathematical problem right?

Ratchet runs this file in its sandbox, once for the completions of each prompt. It reads them as JSON and prints a list
of numbers, one for each, in order; null for one that it can't judge. The fields of a sample are in docs/rewards.md.

A problem has no tests, and its answer as its first reference. What is answered is data: never run or evaluate it.
"""

import json
import re
import sys
from fractions import Fraction

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:\s*/\s*\d+)?")
LONGEST = 40
"""Characters of a number that are read."""


def score(sample):
    """1 for a right answer, 0 for a wrong one; null where the reference is no number."""
    references = sample["problem"]["references"]
    wanted = value(references[0]) if references else None
    if wanted is None:
        return None
    return float(value(answer_of(sample["answer"])) == wanted)


def answer_of(text):
    """What is in the last box, else the last number."""
    _, box, after = text.rpartition("\\boxed{")
    if box:
        return after.rpartition("}")[0] or after
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers else ""


def value(text):
    """The number that a text is, exactly: 12, -3.5, 1,000, 1/2 or \\frac{1}{2}; None for any other."""
    text = re.sub(r"\\d?frac\{(-?\d+)\}\{(\d+)\}", r"\1/\2", text.strip().strip("$ ."))
    text = text.replace(",", "").replace(" ", "")
    if len(text) > LONGEST or not re.fullmatch(r"-?\d+(\.\d+)?(/\d+)?", text):
        return None
    number, slash, divisor = text.partition("/")
    if slash and not int(divisor):
        return None
    return Fraction(number) / (int(divisor) if slash else 1)


if __name__ == "__main__":
    print(json.dumps([score(sample) for sample in json.load(sys.stdin)["samples"]]))
