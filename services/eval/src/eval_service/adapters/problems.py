"""ProblemSource on libs/benchmarks."""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import ratchet_benchmarks
from eval_service.adapters.folders import FolderSet
from eval_service.domain.ports import ProblemSet, Put
from eval_service.domain.spec import Form, Kind, ProblemSetRef
from ratchet_benchmarks import BENCHMARKS, LoadedBenchmark, folder
from ratchet_benchmarks.benchmark import Edition
from ratchet_environments import Limits
from ratchet_environments.executor import Executor
from ratchet_environments.folders.folder import TaskFolder
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import DataLoss, FailedPrecondition, FieldViolation, InvalidArgument, NotFound, invalid
from ratchet_problems import Problem, faults_of, notices, tables
from ratchet_problems.dataset_cache import cached, cached_tasks
from ratchet_problems.dataset_fetching import Datasets
from ratchet_problems.extraction import program_of

FILES = (".jsonl", ".json", ".parquet")
MOST_PROBLEMS = 20_000
"""Limit of problems of a data set in one evaluation."""


class LibraryProblems:
    def __init__(self, places: Places, executor: Executor, datasets: Datasets) -> None:
        """`places`: where callers' files may lie. `executor`: runs what a benchmark computes once. `datasets`: of the
        registry, users' sets and the rows of benchmarks."""
        self._places = places
        self._executor = executor
        self._datasets = datasets
        self._preparing = asyncio.Lock()

    async def pin(self, ref: ProblemSetRef, kind: Kind) -> ProblemSetRef:
        """With the content of a data set on this machine."""
        dataset = ratchet_benchmarks.dataset_of(ref.name)
        if dataset is None:
            if kind is Kind.FOLDERS:
                rule = f"must be a data set of task folders (docs/tasks.md), and {ref.name!r} is none"
                raise invalid("spec.problems.name", rule)
            return ref
        fetch = self._datasets.fetch_tasks if kind is Kind.FOLDERS else self._datasets.fetch
        with _unusable():
            try:
                return replace(ref, name=str(await fetch(dataset)))
            except NotFound as error:
                if not error.message.startswith("there is no"):
                    raise
                known = ", ".join([*BENCHMARKS, *ratchet_benchmarks.OWN])
                raise NotFound(
                    f"no benchmark {ref.name!r}: use one of {known}, a file, or a data set ({error.message})"
                ) from error

    async def use(self, ref: ProblemSetRef, evaluation_id: str) -> None:
        if (dataset := ratchet_benchmarks.dataset_of(ref.name)) is not None:
            with _unusable():
                await self._datasets.use(dataset, evaluation_id)

    async def check(self, ref: ProblemSetRef, kind: Kind) -> Sequence[str]:
        if kind is Kind.FOLDERS:
            return (await self._folders(ref)).notices
        if ref.name.endswith(FILES):
            problems = (await self.load(ref, kind)).problems
            path = self._places.file(ref.name)
            if found := await asyncio.to_thread(faults_of, [one for one in problems if one.tests], path):
                message = f"{ref.name} has problems that no program can pass: {'; '.join(found)}"
                raise InvalidArgument(message, [FieldViolation("spec.problems.name", one) for one in found])
            return notices(problems)
        if dataset := ratchet_benchmarks.dataset_of(ref.name):  # it was examined when it was added
            rows = tables.count(cached(dataset))
            if min(rows, ref.limit or rows) > MOST_PROBLEMS:
                fault = f"has {rows:,} problems, and an evaluation measures {MOST_PROBLEMS:,} at most: set a limit"
                raise InvalidArgument(f"{ref.name} {fault}", [FieldViolation("spec.problems.limit", fault)])
            return ()
        with _unusable():
            await self._bring(ref.name)
            ratchet_benchmarks.require(ref.name)
        return ()

    async def load(self, ref: ProblemSetRef, kind: Kind) -> ProblemSet:
        await self.pin(ref, kind)  # another replica may have made the evaluation
        if kind is Kind.FOLDERS:
            return await self._folders(ref)
        with _unusable():
            await self._bring(ref.name)
            async with self._preparing:  # what one begins the next one finds
                await ratchet_benchmarks.prepare(self._name(ref), self._executor)
            return LibrarySet(await self._loaded(ref, kind))

    async def load_if_ready(self, ref: ProblemSetRef, kind: Kind) -> ProblemSet | None:
        if kind is Kind.FOLDERS:
            dataset = ratchet_benchmarks.dataset_of(ref.name)
            return await self._folders(ref) if dataset and cached_tasks(dataset).is_file() else None
        with _unusable():
            try:
                return LibrarySet(await self._loaded(ref, kind))
            except FailedPrecondition:
                return None

    async def _loaded(self, ref: ProblemSetRef, kind: Kind) -> LoadedBenchmark:
        untested = kind is Kind.UNTESTED
        return await asyncio.to_thread(ratchet_benchmarks.load, self._name(ref), ref.limit, untested=untested)

    async def _folders(self, ref: ProblemSetRef) -> FolderSet:
        dataset = ratchet_benchmarks.dataset_of(ref.name)
        assert dataset is not None
        with _unusable():
            return await asyncio.to_thread(FolderSet.read, cached_tasks(dataset), ref.limit)

    async def _bring(self, name: str) -> None:
        """The rows of a benchmark from the platform, where they are not on this machine."""
        base, _, version = name.partition("/")[0].partition("@")
        benchmark = BENCHMARKS.get(base)
        if benchmark is None or any(version in ("", edition.version) for edition in folder.editions(benchmark)):
            return
        found = await self._datasets.rows(benchmark.dataset, version)
        if found is None:
            return  # who needs them says so
        name, data = found
        edition = next((one for one in benchmark.editions if one.version == name), Edition(name, name))
        if not hashlib.sha256(data).hexdigest().startswith(edition.digest):
            raise DataLoss(f"the rows of {base}@{name} are not those of that edition: run `ratchet data fetch {base}`")
        await asyncio.to_thread(folder.write_rows, benchmark, edition, data)

    def _name(self, ref: ProblemSetRef) -> str:
        if dataset := ratchet_benchmarks.dataset_of(ref.name):
            return str(cached(dataset))
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
        if not problem.tests:  # any text may be the answer
            return completion
        if self.loaded.name in ratchet_benchmarks.OWN or self.loaded.name.endswith(FILES):
            # no evaluator but ours, and a prompt may be words
            return program_of(problem, completion)
        return self.loaded.program(problem, completion)

    def solution(self, problem: Problem, solution: str) -> str:
        return self.loaded.solution(problem, solution)

    def folder(self, problem: Problem) -> TaskFolder:
        raise NotFound(f"{problem.id} is no task folder")


@contextmanager
def _unusable() -> Iterator[None]:
    """Raises InvalidArgument for what the caller can mend."""
    try:
        yield
    except (NotFound, InvalidArgument, FailedPrecondition, DataLoss) as error:
        violation = FieldViolation("spec.problems.name", error.message)
        raise InvalidArgument(f"the problem set cannot be used: {error.message}", [violation]) from error
