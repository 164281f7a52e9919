"""Runs programs of this package's own making, as the sandbox would judge them."""

import ast
from collections.abc import Callable

import pytest

from ratchet_problems import CallTest, Problem


def failures(problem: Problem, program: str) -> list[str]:
    """The call tests that `program` does not pass."""
    namespace: dict[str, Callable[..., object]] = {}
    exec(program, namespace)
    function = namespace[problem.entry_point]
    wrong = []
    for test in problem.tests:
        assert isinstance(test, CallTest)
        got, expected = function(*ast.literal_eval(test.args)), ast.literal_eval(test.expected)
        if got != expected or type(got) is not type(expected):
            wrong.append(f"{problem.id}: {test.args} gave {got!r}, not {test.expected}")
    return wrong


@pytest.fixture
def judge() -> Callable[[Problem, str], list[str]]:
    return failures
