"""The test code of a task: EvalPlus' rules, its inputs, and what its reference gave for them."""

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

RULES = {
    "HumanEval/32": "root",
    "Mbpp/164": "anything",
    "Mbpp/295": "or_zero",
    "Mbpp/558": "digits_apart",
    "Mbpp/581": "pyramid",
} | dict.fromkeys((f"Mbpp/{task}" for task in (2, 7, 111, 140, 232, 249, 579, 769)), "same_set")
ONLY_SOMETHING = frozenset({"check_str", "text_match_three", "text_starta_endb"})
"""Functions of which only counts whether they answer anything (MBPP+)."""

_JUDGE = resources.files("ratchet_benchmarks.evalplus").joinpath("judge.py").read_text()
_CODE = """{judge}
import json
from math import inf, nan

INPUTS = {inputs}
EXPECTED = {expected}


def check(candidate):
    judge(candidate, INPUTS, EXPECTED, {tolerance!r}, {rule})
"""


def code(task_id: str, entry_point: str, inputs: Sequence[Any], expected: Sequence[str], tolerance: float) -> str:
    """`expected`: Python literals, or `Digest(...)` for long ones."""
    rule = "something" if entry_point in ONLY_SOMETHING else RULES.get(task_id, "None")
    return _CODE.format(
        judge=_JUDGE, inputs=literal(inputs), expected=f"[{', '.join(expected)}]", tolerance=tolerance, rule=rule
    )


def literal(values: Sequence[Any]) -> str:
    """Python for the values. JSON in a text where that holds them: it is read several times faster."""
    try:
        text = json.dumps(values)
        same = repr(json.loads(text)) == repr(values)
    except (TypeError, ValueError):
        same = False
    return f"json.loads({text!r})" if same else repr(values)
