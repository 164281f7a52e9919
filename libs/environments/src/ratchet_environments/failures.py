"""The tests that an answer failed, as people are shown them: nothing of a test that is held out but its number."""

from dataclasses import dataclass

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
