"""What is answered: one execution of a program, with its verdict."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import File
from sandbox_service.domain.signs import Sighting


class Verdict(StrEnum):
    """About the program, never about the platform: a platform that fails raises.

    NONE: the tests can judge no program, and Execution.failure says why.
    """

    NONE = "none"

    PASSED = "passed"
    FAILED = "failed"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    TAMPERED = "tampered"


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test that was reached. `got` and `expected` are reprs (or text), at most 1 KiB each, valid UTF-8.

    Of a held-out test there's no more than whether it passed.
    """

    __test__ = False  # not for pytest

    passed: bool
    got: str = ""
    expected: str = ""
    error: str = ""
    held_out: bool = False
    forgeable: bool = False
    by_values: bool = False
    """The service compared the values or the output: no test code ran."""


@dataclass(frozen=True, slots=True)
class Execution:
    program_id: str
    verdict: Verdict
    results: tuple[TestResult, ...]
    tests_total: int
    stdout: str
    stderr: str
    cpu_time: timedelta
    wall_time: timedelta
    layers: tuple[str, ...]
    detail: str = ""
    runtime: str = ""
    files: tuple[File, ...] = ()
    compile_output: str = ""
    compile_time: timedelta = timedelta()
    exit_status: int | None = 0
    """Of the program's process; None where it never had one, as its compiler failed, and in a held-out test."""
    max_memory_bytes: int = 0
    level: Level = Level.NONE
    output_cut: bool = False
    """There was more on stdout or stderr than is here."""
    signs: tuple[Sighting, ...] = ()
    """Of cheating, whatever the verdict."""
    failure: str = ""
    """Why the tests can judge no program: the problem's fault. Then the verdict is NONE."""
    forgeable: bool = False
    """Whether tests ran in the program's process, which could say what it likes there."""

    @property
    def tests_passed(self) -> int:
        return sum(result.passed for result in self.results)
