"""What a reader of a benchmark takes and gives: a row and a completion, and what to run for them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ratchet_problems.problem import CallTest, CheckTest
from sandbox_service.fusion.rows.row import Row

_MOST_CASES = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """How a completion is to be read."""

    language: str = ""
    """Of the program, for benchmarks that hold no language themselves; empty: not given."""
    is_fewshot: bool = False
    is_freeform: bool = False
    """The completion is an answer that holds the whole function, and does not go on from the prompt."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run on `stdin`, whose output is compared here by SandboxFusion's rule."""

    stdin: str
    expected: str
    row: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """What to run: with `tests`, the program once; with `cases`, once for each; else once, judged by its status."""

    source: str
    extracted: str
    """What was found in the completion."""
    tests: tuple[CallTest | CheckTest, ...] = ()
    entry_point: str = ""
    language: str = "python"
    test_code: str = ""
    cases: tuple[Case, ...] = ()

    @property
    def forgeable(self) -> bool:
        """Whether the program could say by itself that it passed."""
        shared = any(isinstance(test, CheckTest) and test.shared for test in self.tests)
        return shared or not (self.tests or self.cases)


Reader = Callable[[Row, str, Options], Work]
"""Takes a row, a completion and options. Raises InvalidArgument for a row that isn't in the form, Unimplemented for
what isn't graded here."""


def by_cases(row: Row, name: str, cases: list[Case], source: str, language: str, extracted: str) -> Work:
    """Raises InvalidArgument for too many cases, or none. `name`: the field that holds them."""
    if not 0 < len(cases) <= _MOST_CASES:
        raise row.fault(name, f"{len(cases)} cases; 1 to {_MOST_CASES} are allowed")
    return Work(source, extracted, language=language, cases=tuple(cases))


def stdio_case(stdin: str, expected: str) -> Case:
    return Case(stdin, expected, {"input": {"stdin": stdin}, "output": {"stdout": expected}})
