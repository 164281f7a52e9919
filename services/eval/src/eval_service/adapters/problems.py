"""ProblemSource on libs/benchmarks."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import ratchet_benchmarks
from eval_service.domain.ports import ProblemSet, Put
from eval_service.domain.spec import Form, ProblemSetRef
from ratchet_benchmarks import LoadedBenchmark
from ratchet_environments import Limits
from ratchet_environments.executor import Executor
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import DataLoss, FailedPrecondition, FieldViolation, InvalidArgument, NotFound
from ratchet_problems import Problem, notices
from ratchet_problems.extraction import source_for

FILES = (".jsonl", ".json", ".parquet")


class LibraryProblems:
    def __init__(self, places: Places, executor: Executor) -> None:
        """`places`: where callers' files may lie. `executor`: runs what a benchmark computes once."""
        self._places = places
        self._executor = executor
        self._preparing = asyncio.Lock()

    async def check(self, ref: ProblemSetRef) -> Sequence[str]:
        if ref.name.endswith(FILES):
            return notices((await self.load(ref)).problems)
        with _unusable():
            ratchet_benchmarks.require(ref.name)
        return ()

    async def load(self, ref: ProblemSetRef) -> ProblemSet:
        with _unusable():
            async with self._preparing:  # what one begins the next one finds
                await ratchet_benchmarks.prepare(self._name(ref), self._executor)
            return LibrarySet(await asyncio.to_thread(ratchet_benchmarks.load, self._name(ref), ref.limit))

    async def load_if_ready(self, ref: ProblemSetRef) -> ProblemSet | None:
        with _unusable():
            try:
                return LibrarySet(await asyncio.to_thread(ratchet_benchmarks.load, self._name(ref), ref.limit))
            except FailedPrecondition:
                return None

    def _name(self, ref: ProblemSetRef) -> str:
        return str(self._places.file(ref.name)) if ref.name.endswith(FILES) else ref.name


@dataclass(frozen=True, slots=True)
class LibrarySet:
    loaded: LoadedBenchmark

    @property
    def problems(self) -> Sequence[Problem]:
        return self.loaded.problems

    @property
    def digest(self) -> str:
        return self.loaded.digest

    @property
    def version(self) -> str:
        return self.loaded.version

    @property
    def runtime(self) -> str:
        return self.loaded.runtime

    def limits(self, problem: Problem) -> Limits:
        return self.loaded.limits(problem)

    def put(self, problem: Problem, form: Form, shots: int | None) -> Put:
        prompt = self.loaded.put(problem, form.value, shots)
        return Put(prompt.messages, prompt.text, prompt.stop)

    def program(self, problem: Problem, completion: str) -> str:
        if self.loaded.name in ratchet_benchmarks.OWN or self.loaded.name.endswith(FILES):
            # no evaluator but ours, and a prompt may be words
            return source_for(problem.prompt, problem.entry_point, completion)
        return self.loaded.program(problem, completion)

    def solution(self, problem: Problem, solution: str) -> str:
        return self.loaded.solution(problem, solution)


@contextmanager
def _unusable() -> Iterator[None]:
    """Raises InvalidArgument for what the caller can mend."""
    try:
        yield
    except (NotFound, InvalidArgument, FailedPrecondition, DataLoss) as error:
        violation = FieldViolation("spec.problems.name", error.message)
        raise InvalidArgument(f"the problem set cannot be used: {error.message}", [violation]) from error
