"""Runs programs of this package's own making, as the sandbox would judge them."""

from collections.abc import Callable
from functools import cache
from types import CodeType

import pytest

from ratchet_problems import CallTest, Problem

Judge = Callable[[Problem, str], list[str]]


@cache
def literal(text: str) -> CodeType:
    """To be evaluated at each use: what a program does to its arguments must not reach the next one."""
    return compile(text, "literal", "eval")


def failures(problem: Problem, program: str) -> list[str]:
    """The call tests that `program` does not pass."""
    namespace: dict[str, Callable[..., object]] = {}
    exec(program, namespace)
    function = namespace[problem.entry_point]
    wrong = []
    for test in problem.tests:
        assert isinstance(test, CallTest)
        got, expected = function(*eval(literal(test.args))), eval(literal(test.expected))
        if got != expected or type(got) is not type(expected):
            wrong.append(f"{problem.id}: {test.args} gave {got!r}, not {test.expected}")
    return wrong


@pytest.fixture
def judge() -> Judge:
    return failures
