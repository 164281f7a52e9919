"""Grader: the tests of known problems, run in the sandbox through ratchet_environments."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import ratchet_problems
from gateway_service.domain.traffic.record import ProblemRef
from ratchet_environments import Environment, Task, judge
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_problems import Problem, tables
from ratchet_problems.dataset_cache import cached
from ratchet_problems.dataset_fetching import Datasets
from ratchet_problems.sets import dataset_of

MOST_PROBLEMS = 20_000
"""Limit of a data set, which is kept in memory."""


class SandboxGrader:
    """Callers name problem sets, never paths: a path could name any file of this machine."""

    def __init__(self, environment: Environment, folder: Path | None, datasets: Datasets) -> None:
        """`folder`: where users' own sets ("mine.jsonl") lie; None: nowhere. `datasets`: of the registry."""
        self._environment = environment
        self._folder = folder
        self._datasets = datasets
        self._finding = asyncio.Lock()
        """A set is made once, in one thread: it takes seconds of computing, and what else waits for threads goes on."""

    async def grade(self, problem: ProblemRef, texts: Sequence[str]) -> Sequence[float]:
        problem = await self._fetched(problem)
        async with self._finding:
            found = await asyncio.to_thread(self._find, problem)
        task = Task.of(found)
        outcomes = await asyncio.gather(*(judge(self._environment, task, text) for text in texts))
        return [float(outcome.grade.passed) for outcome in outcomes]

    async def _fetched(self, ref: ProblemRef) -> ProblemRef:
        """Pins a data set to its exact version, and fetches its content to this machine. Raises NotFound,
        FailedPrecondition, Unavailable."""
        dataset = dataset_of(ref.problem_set)
        if dataset is None:
            return ref
        try:
            pinned = await self._datasets.fetch(dataset)
        except NotFound as error:
            known = f"{', '.join(ratchet_problems.NAMES)}, or a data set ({error.message})"
            raise NotFound(f"problem set {ref.problem_set!r} is not known: use one of {known}") from error
        rows = await asyncio.to_thread(tables.count, cached(pinned))
        if rows > MOST_PROBLEMS:
            raise FailedPrecondition(f"{pinned} has {rows:,} problems; tests of {MOST_PROBLEMS:,} at most are run here")
        return ProblemRef(str(pinned), ref.problem_id)

    def _find(self, ref: ProblemRef) -> Problem:
        name = ref.problem_set
        if name not in ratchet_problems.NAMES and dataset_of(name) is None:
            file = None if self._folder is None else self._folder / Path(name).name
            if file is None or file.name != name or file.suffix != ".jsonl" or not _is_file(file):
                raise NotFound(f"problem set {name!r} is not known: use one of {', '.join(ratchet_problems.NAMES)}")
            name = str(file)
        try:
            found = _by_id(name).get(ref.problem_id)
        except InvalidArgument as error:  # the operator's fault, not the caller's
            raise FailedPrecondition(f"problem set {ref.problem_set} cannot be read: {error.message}") from error
        if found is None:
            raise NotFound(f"problem {ref.problem_id!r} is not in {ref.problem_set}")
        return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no disk takes
        return False


@lru_cache(maxsize=16)
def _by_id(name: str) -> Mapping[str, Problem]:
    return {problem.id: problem for problem in ratchet_problems.load(name)}
