"""A benchmark: the home of its data, how they are read, and the problems in them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ratchet_environments.task import Limits
from ratchet_problems import Problem
from ratchet_problems.prompting import Form, Prompt, Prompting

Row = Mapping[str, Any]
Truth = Mapping[str, Any]
"""Task id -> what the benchmark computed from its rows once: evalplus/truth.py."""


@dataclass(frozen=True, slots=True)
class Edition:
    """One published state of a benchmark's data."""

    version: str
    """As its makers call it: "v0.1.10"; where they name none, the commit or the year."""
    digest: str
    """sha256 (hex) of the rows as `rows.canonical` writes them: the same from .jsonl, .json, .gz and .parquet."""
    homes: tuple[str, ...] = ()
    """https addresses, tried in this order."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The problems in the rows of a benchmark."""

    problems: tuple[Problem, ...]
    prompting: Prompting
    limits: Limits = field(default_factory=Limits)
    """Limits of each program."""
    own_limits: Mapping[str, Limits] = field(default_factory=dict)
    """Limits of problems that need others, by id."""


Reader = Callable[[Sequence[Row], str, Truth], Contents]
"""Takes the rows, the name of a part ("" is what is measured unless one is named), and the truth."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`editions`: the one that is measured unless another is named comes first."""

    name: str
    about: str
    licence: str
    editions: tuple[Edition, ...]
    fields: tuple[str, ...]
    """The fields of a row that are used, which the digest covers."""
    read: Reader
    parts: tuple[str, ...] = ("",)
    needs_truth: bool = False
    adapt: Callable[[Row], Row] = lambda row: row
    """To the fields above, for data that are published in several forms."""
    runtime: str = ""
    """The sandbox's Python environment; empty: the imports choose it."""

    @property
    def dataset(self) -> str:
        """The data set of the registry that holds its rows; names of data sets have no "+"."""
        return self.name.replace("+", "-plus")

    @property
    def version(self) -> str:
        return self.editions[0].version


@dataclass(frozen=True, slots=True)
class LoadedBenchmark:
    """A set of problems, ready to be measured."""

    name: str
    version: str
    licence: str
    digest: str
    """`sha256:<hex>` over the problems with their tests."""
    contents: Contents = field(repr=False)
    runtime: str = ""
    """The sandbox's Python environment; empty: the imports choose it."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.contents.problems

    def limits(self, problem: Problem) -> Limits:
        """Limits of a program for the problem."""
        return self.contents.own_limits.get(problem.id, self.contents.limits)

    def put(self, problem: Problem, form: Form, shots: int | None = None) -> Prompt:
        """How the problem is put to a model. Raises InvalidArgument for more shots than there are examples."""
        return self.contents.prompting.put(problem, form, shots)

    def program(self, problem: Problem, completion: str) -> str:
        """The program that the benchmark's own evaluator would run for a completion of the prompt."""
        return self.contents.prompting.join(problem, completion)

    def solution(self, problem: Problem, solution: str) -> str:
        """The program that the benchmark's own evaluator would run for a solution that was made elsewhere."""
        return self.contents.prompting.wrap(problem, solution)
