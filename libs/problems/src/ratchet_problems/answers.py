"""The right answers of public sets, as their columns hold them.

"He has 3 x 14 = <<3*14=42>>42 apples.\\n#### 42"        GSM8K: the answer stands behind the last mark
"... so that the sum is $\\boxed{\\frac{1}{2}}$."         MATH: in the last box
{"style": "rule", "ground_truth": "42"}                 verl
{"value": "Paris", "aliases": ["Paris", "City of Light"]}   TriviaQA; SQuAD has {"text": [...]}
"""

from typing import Any

from ratchet_kit.errors import InvalidArgument
from ratchet_problems.answer_program import boxed

MARK = "####"
"""Stands before the answer in GSM8K."""
_KEYS = ("ground_truth", "aliases", "value", "text", "answer")


def read(value: Any) -> tuple[Any, str]:
    """The right answer, or a list of right ones, as JSONL has them, and the solution that it is the end of: empty for
    an answer alone. Raises InvalidArgument for a mark without an answer."""
    if isinstance(value, dict):
        key = next((key for key in _KEYS if value.get(key)), None)
        return read(value[key]) if key else (value, "")
    if isinstance(value, list):
        read_ones = [read(one) for one in value]
        found = [one for answer, _ in read_ones for one in (answer if isinstance(answer, list) else [answer])]
        return list(dict.fromkeys(found)) if all(isinstance(one, str) for one in found) else found, ""
    if not isinstance(value, str):
        return value, ""
    text = value.strip()
    _, mark, after = text.rpartition(MARK)
    final = after.strip() if mark else boxed(text)
    if final == "":
        raise InvalidArgument(f"has nothing behind its {MARK if mark else 'box'}: the right answer stands there")
    return (final, text) if final and final != text else (text, "")
