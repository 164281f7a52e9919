"""The verdict of a program's tests."""

from dataclasses import dataclass
from datetime import timedelta

PASSED = "PASSED"
TAMPERED = "TAMPERED"
UNTESTED = "UNTESTED"
"""Nothing was run: the problem has no tests, and rewards of one's own judge the answer."""


@dataclass(frozen=True, slots=True)
class Grade:
    """Always about the program: when the platform fails there is an error, and no grade."""

    verdict: str
    """The sandbox's, without its prefix: "PASSED", "TIME_LIMIT"; or UNTESTED."""
    tests_passed: int
    tests_total: int
    detail: str = ""
    """One sentence on what went wrong first; empty for a pass."""
    forgeable: bool = False
    """True where tests ran in the program's process, which could forge their results."""
    cpu_time: timedelta | None = None
    """CPU time of the program with all its tests, where it was measured."""
    by_values: bool = False
    """The sandbox compared all values and outputs itself: no test code ran."""
    memory_bytes: int = 0
    """Peak of resident memory; 0 where it was not measured."""
    score: float | None = None
    """The judge's own number for the whole, from 0 to 1; None: the share of tests that pass."""

    @property
    def passed(self) -> bool:
        return self.verdict == PASSED
