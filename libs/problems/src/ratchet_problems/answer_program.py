"""The program that compares an answer with the right ones, in the sandbox's runtime `math`. Its text is sent there, so
that it imports nothing of Ratchet's. Nothing of an answer is run: math-verify reads it, within the sandbox's limits.

    {"accepted": ["42"], "answer": "... so 6 x 7 = 42"}     on its stdin
    begun                                                   on its stdout, once math-verify is there
    {"right": true, "read": "42"}                           then, what was taken for the answer
"""

import json
import logging
import re
import sys
import unicodedata
from decimal import Decimal

LONGEST = 10_000
"""Characters of an answer that are read, from its end."""
SHOWN = 200
BEGUN = "begun"
WORDS = re.compile(r"(?=.*[^\W\d_]{2}|[^\W\d_]$)(?:[\w\s'’.,&]|(?<=[^\W\d_])-(?=[^\W\d_]))+")
"""A right answer that is words, "New York" or "B", and no mathematics."""
FINAL = re.compile(r"(?i:\banswer\b[^:\n]{0,40}?(?:\bis\b|:)|####)\s*:?\s*\**\s*(.+)")
"""Finds the stated answer, up to the end of its line."""
BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
DENIED = re.compile(
    r"(?i)(?:\b(?:not|never|cannot|unlikely|no)\b|n['’]t\b|\banything but\b|\\n(?:e|eq|eg|ot)\b|[≠¬])[^,.;\d]*[-\d]"
    r"|\b(?:no|not|wrong)\W*$"
)
"""Finds a number that is taken back: before it, or at the end."""
HEDGED = re.compile(r"(?i)\b(?:or|either|maybe|perhaps)\b|\\(?:lor|vee|cup)\b|[∨∪]")
CORRECTED = re.compile(r"(?i)\bnot\b[^.;]*?\b(?:but|rather)\b")
"""Finds "not 41 but", which a right answer may follow."""
TEXT = re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{([^{}]*)\}")
COMMAND = re.compile(r"\\[a-zA-Z]+|\\.")
OPERATORS = re.compile(r"[-+*/^=<>\\$%(){}\[\]|!]")
NO_UNIT = ("in", "because", "since", "so", "as", "is", "are", "and", "per", "at", "for", "of", "to", "which", "that")
"""Words that go on with the sentence: "10 in total"."""
MEASURED = re.compile(r"[-+]?[\d.,/ ]*\d\s+([^\W\d_][\w\s'’.²³/^-]*)")
"""A right answer with its unit: "10 km", "5 apples". Not "4ab", which is mathematics."""

PRODUCT = re.compile(r"(?<=\d)[a-zA-Z]{2,3}(?![a-zA-Z])")
"""The letters of "3ab", of which math-verify reads 3."""
UNITS = re.compile(
    "am|pm|bn|cm|deg|ft|gb|gal|ghz|hr|hrs|hz|in|kb|kg|kj|khz|km|kmh|kph|kw|lb|lbs|mb|mg|mhz|mi|min|ml|mm|mph|ms|nd|oz"
    "|pt|pts|px|rad|rd|sec|st|th|yd|yr|yrs",
    re.IGNORECASE,
)
"""Units and ordinals, which stand right behind a number and are no products."""


def answered(text: str) -> str:
    """The text after its thoughts, with digits of all scripts as ours. A thought without an end has no answer."""
    text = normal(text)
    _, thought, after = text.rpartition("</think>")
    text = after if thought else text
    return "" if "<think>" in text else text[-LONGEST:]


def normal(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    return "".join(str(unicodedata.digit(one)) if unicodedata.category(one) == "Nd" else one for one in composed)


def final(text: str) -> str:
    """The last box, else what is said to be the answer, else the last line."""
    if (box := boxed(text)) is not None:
        return box
    said = FINAL.findall(text)
    lines = [line for line in text.splitlines() if line.strip()]
    return plain((said or lines or [""])[-1])


def boxed(text: str) -> str | None:
    """The content of the last box; empty where no brace closes it, None without a box."""
    begins = [match.end() for match in BOX.finditer(text)]
    if not begins:
        return None
    start, depth = begins[-1], 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return plain(text[start:place])
    return ""


def plain(text: str) -> str:
    """Words without the command of LaTeX that sets them."""
    return re.sub(r"^\\(?:text|mathrm|textbf)\s*\{(.*)\}$", r"\1", text.strip())


def words(text: str) -> list[str]:
    """Numbers and words, whatever their case, punctuation and articles."""
    found = re.findall(r"[-+]?\d+(?:[.,]\d+)*|\w+", text.casefold())
    return [word for word in found if word not in ("a", "an", "the", "option", "choice")] or found


def unit(expected: str) -> set[str]:
    """The words of the unit of a right answer; empty where it has none."""
    found = MEASURED.fullmatch(COMMAND.sub(" ", TEXT.sub(r" \1 ", expected)).strip())
    return singular(words(found[1])) if found else set()


def singular(found: list[str]) -> set[str]:
    return {word.removesuffix("s") if len(word) > 2 else word for word in found}


def is_right(accepted: list[str], text: str) -> bool:
    said = final(text)
    if not said:
        return False
    expected = [plain(normal(one)) for one in accepted]
    if said in expected:
        return True
    if any(are_words(one, said) and words(one) == words(said) for one in expected):
        return True
    mathematics = [one for one in expected if re.search(r"\d", one) or not WORDS.fullmatch(one)]
    if corrected := CORRECTED.search(said):
        text = said = said[corrected.end() :].strip()
    return any(is_comparable(one, said) and same(one, text, said) for one in mathematics)


def are_words(expected: str, said: str) -> bool:
    """Words, or numbers with words, as in "3:00 PM". Not "4ab - 2", whose sign is more than punctuation."""
    if re.search(r"\d", expected):
        return not OPERATORS.search(expected) and not OPERATORS.search(said)
    return bool(WORDS.fullmatch(expected))


def is_comparable(expected: str, said: str) -> bool:
    """Nothing is denied or hedged, and a unit is the one that is expected, or left out."""
    if any(found.search(said) and not found.search(expected) for found in (DENIED, HEDGED)):
        return False
    wanted = unit(expected)
    behind = re.split(r"\d", COMMAND.sub(" ", TEXT.sub(r" \1 ", said)).replace("^2", "²").replace("^3", "³"))[-1]
    given = re.findall(r"[^\W\d_]+", behind.casefold())
    return not wanted or not given or given[0] in NO_UNIT or bool(wanted & singular(given))


def is_formula(said: str) -> bool:
    """Nothing but mathematics: no words, and no working of it out."""
    return "=" not in said and not re.search(r"[^\W\d_]{2}", COMMAND.sub(" ", said))


def number(text: str) -> str:
    """Powers of ten as in programs, and mixed fractions, which math-verify does not read: "1e6", "3 1/2"."""
    if re.fullmatch(r"-?\d+(?:\.\d+)?[eE][-+]?\d{1,2}", text):
        return format(Decimal(text), "f")
    if found := re.fullmatch(r"(-?)(\d+)\s+(\d+)/(\d+)", text):
        sign, whole, above, below = found.groups()
        return f"{sign}({whole}+\\frac{{{above}}}{{{below}}})"
    return text


def spelled(text: str) -> str:
    """Products of letters with their signs, so that they are read whole: "3ab"."""
    return PRODUCT.sub(
        lambda found: found[0] if UNITS.fullmatch(found[0]) else "".join(rf"\cdot {one}" for one in found[0]), text
    )


def same(expected: str, text: str, said: str) -> bool:
    """By math-verify, which finds the answer in the text. The last of several boxes or marks counts alone."""
    from math_verify import parse, verify

    expected, text, said = spelled(expected), spelled(text), spelled(said)
    # its own time limits go by the clock; the sandbox's go by CPU time
    right = parse(f"${number(expected.strip('$'))}$", parsing_timeout=None)
    if number(said) != said:
        text = f"\\boxed{{{number(said)}}}"
    elif BOX.search(text):
        text = f"\\boxed{{{said}}}"
    elif is_formula(said):  # of "2 + 3i" in a text math-verify reads 2
        text = f"${said.strip('$')}$"
    elif "####" in text:
        text = said
    found = parse(text, parsing_timeout=None)
    if not found and re.search(r"[\d\\]", said):  # of words alone nothing can be read
        found = parse(f"${said.strip('$')}$", parsing_timeout=None)
    return bool(verify(right, found, timeout_seconds=None))


def main() -> None:
    import math_verify  # noqa: F401 (it is here, whatever comes of the answer)

    logging.disable()
    sys.setrecursionlimit(10_000)
    print(BEGUN, flush=True)
    given = json.load(sys.stdin)
    text = answered(given["answer"])
    right = is_right(given["accepted"], text)
    print(json.dumps({"right": right, "read": final(text)[:SHOWN]}))


if __name__ == "__main__":
    main()
