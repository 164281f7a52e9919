"""The reward brevity: what a completion is worth, from -1 to 1.

Ratchet runs this file in its sandbox, once for the completions of each prompt. It reads them as JSON and prints a list
of numbers, one for each, in order; null for one that it can't judge. The fields of a sample are in docs/rewards.md.

Never run or import a sample's source here: it could print scores of its own.
"""

import json
import sys


def score(sample):
    """1 for a program of at most ten lines, less for longer ones; 0 where the tests fail."""
    if not sample["passed"]:
        return 0.0
    lines = sum(1 for line in sample["source"].splitlines() if line.strip())
    return min(1.0, 10 / max(lines, 1))


if __name__ == "__main__":
    print(json.dumps([score(sample) for sample in json.load(sys.stdin)["samples"]]))
