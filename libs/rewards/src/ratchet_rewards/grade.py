"""What a program's tests said of it."""

from dataclasses import dataclass
from datetime import timedelta

PASSED = "PASSED"
TAMPERED = "TAMPERED"


@dataclass(frozen=True, slots=True)
class Grade:
    """Always about the program: when the platform fails there is an error, and no grade."""

    verdict: str
    """The sandbox's, without its prefix: "PASSED", "TIME_LIMIT"."""
    tests_passed: int
    tests_total: int
    detail: str = ""
    """One sentence on what went wrong first; empty for a pass."""
    forgeable: bool = False
    """Whether tests ran in the program's process, which could say what it likes there."""
    cpu_time: timedelta | None = None
    """Of the program with all its tests, where it was measured."""

    @property
    def passed(self) -> bool:
        return self.verdict == PASSED
