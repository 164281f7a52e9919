"""The tests that an answer failed, as people are shown them: nothing of a test that is held out but its number."""

from dataclasses import dataclass

from ratchet_kit.text import clip
from ratchet_problems import AnswerTest, CallTest, CheckTest, Problem, StdioTest
from ratchet_problems.problem import TestCase

MOST = 10
"""Tests that are shown, the first that failed."""
LONGEST = 500
"""Bytes of each text of a test."""
LONGEST_STDERR = 4000
"""Characters of stderr: its end, where a traceback says what happened."""


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A test that was not held out. Texts are clipped."""

    test: str
    """The call, the input, or the code of the test."""
    expected: str = ""
    got: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one answer; tests that its program did not come to are not known."""

    tests: tuple[FailedTest, ...] = ()
    """The first `MOST` that failed."""
    held_out: int = 0
    """Number of held-out tests that failed."""
    stderr: str = ""
    """Output of the program or its compiler; empty where a held-out test decided."""


def shown(problem: Problem, test: TestCase) -> FailedTest:
    """A test by itself. Not for one that is held out."""
    match test:
        case CallTest():
            arguments = test.args[1:-1] if test.args.startswith("[") else test.args
            texts = f"{problem.entry_point}({arguments})", test.raises or test.expected
        case StdioTest():
            texts = test.stdin, test.expected_stdout
        case CheckTest():
            texts = test.code, ""
        case AnswerTest():
            texts = "", " or ".join(test.accepted)
    return FailedTest(*(clip(text, LONGEST) for text in texts))
