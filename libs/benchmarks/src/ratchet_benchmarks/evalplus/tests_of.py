"""The test code of a task: EvalPlus' rules, its inputs, and what its reference gave for them."""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from ratchet_benchmarks.evalplus import recording

RULES = {
    "HumanEval/32": "root",
    "Mbpp/164": "anything",
    "Mbpp/295": "or_zero",
    "Mbpp/558": "digits_apart",
    "Mbpp/581": "pyramid",
} | dict.fromkeys((f"Mbpp/{task}" for task in (2, 7, 111, 140, 232, 249, 579, 769)), "same_set")
ONLY_SOMETHING = frozenset({"check_str", "text_match_three", "text_starta_endb"})
"""Functions of which only counts whether they answer anything (MBPP+)."""

_ALONE = "root"
"""Where EvalPlus looks at nothing but the rule."""

_JUDGE, _RULES = (
    resources.files("ratchet_benchmarks.evalplus").joinpath(name).read_text() for name in ("judge.py", "rules.py")
)
_CODE = """{judge}
import json
from math import inf, nan
from ratchet import answers

INPUTS = {inputs}
EXPECTED = {expected}
SLOW = {slow!r}


def check(candidate):
    seconds = [SLOW.get(place, 1.0) for place in range(len(INPUTS))]
    judge(answers(candidate, INPUTS, seconds), INPUTS, EXPECTED, {tolerance!r}, {rule}, {alone})
"""


def code(
    task_id: str,
    entry_point: str,
    inputs: Sequence[Any],
    expected: str,
    tolerance: float,
    slow: Mapping[int, float],
) -> str:
    """`expected`: Python for the list of them. `slow`: the CPU time in seconds that a call may take,
    by its place among the inputs, where that is more than one."""
    rule = "something" if entry_point in ONLY_SOMETHING else RULES.get(task_id, "None")
    return _CODE.format(
        judge=_JUDGE if rule == "None" else f"{_JUDGE}\n\n{_RULES}",
        inputs=recording.expression(inputs),
        expected=expected,
        tolerance=tolerance,
        rule=rule,
        alone=rule == _ALONE,
        slow=dict(slow),
    )
