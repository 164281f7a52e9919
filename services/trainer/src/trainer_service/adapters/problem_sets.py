"""ProblemSets by ratchet_problems: named sets, JSONL files (of problems, of pairs) that this machine can read, and what
plug-ins give."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ratchet_environments.folders import sets as folders
from ratchet_environments.folders.sets import TaskSet
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import suggestion
from ratchet_problems import NAMES, Problem, data_digest, examples, faults_of, notices, taught
from ratchet_problems import pairs as pair_files
from ratchet_problems.dataset_cache import cached_tasks
from ratchet_problems.dataset_fetching import Datasets
from ratchet_problems.languages import PYTHON
from ratchet_problems.messages import has_system
from ratchet_problems.sets import dataset_of, load_pairs
from trainer_service.adapters.trials import SandboxTrials
from trainer_service.domain.inputs.found import FoundSet, Gap, Trial
from trainer_service.domain.inputs.ports import Plugins
from trainer_service.domain.run.run import RunId
from trainer_service.domain.spec import plugins as spec_plugins
from trainer_service.domain.spec.curriculum import Kind
from trainer_service.domain.spec.plugins import PREFIX, PluginKind, missing
from trainer_service.domain.spec.spec import ProblemSetRef
from trainer_service.job.samples import problems as problem_sets


class LibraryProblemSets:
    def __init__(self, places: Places, plugins: Plugins, trials: SandboxTrials, datasets: Datasets) -> None:
        """`places`: where callers' files may lie."""
        self._places = places
        self._plugins = plugins
        self._trials = trials
        self._datasets = datasets

    async def look_up(self, ref: ProblemSetRef) -> FoundSet:
        if ref.name.startswith(PREFIX):
            reason = missing(PluginKind.DATASET, spec_plugins.dataset_of(ref.name), await self._plugins.installed())
            if reason:
                raise InvalidArgument(reason)
        return await asyncio.to_thread(_look_up, self._places, await self._fetched(ref))

    async def tasks(self, ref: ProblemSetRef) -> FoundSet:
        if (dataset := dataset_of(ref.name)) is None:
            raise InvalidArgument(f"{ref.name} is no data set of task folders (docs/tasks.md)")
        try:
            pinned = await self._datasets.fetch_tasks(dataset)
        except FailedPrecondition as error:
            raise InvalidArgument(error.message) from error
        return await asyncio.to_thread(_tasks, replace(ref, name=str(pinned)), cached_tasks(pinned))

    async def newer(self, ref: ProblemSetRef) -> ProblemSetRef | None:
        if (drawn := dataset_of(ref.name)) is None:
            return None
        newest = await self._fetched(replace(ref, name=str(replace(drawn, number=None)), digest=""))
        there = dataset_of(newest.name)
        return newest if there and (there.number or 0) > (drawn.number or 0) else None

    async def examples(self, ref: ProblemSetRef) -> FoundSet:
        """Raises InvalidArgument where too few of its problems are solved."""
        found = await self.look_up(replace(ref, limit=examples.LOOKED_AT))
        await asyncio.to_thread(problem_sets.examples, found.ref.name, ref.limit)
        return replace(found, ref=replace(found.ref, limit=ref.limit))

    async def pairs(self, ref: ProblemSetRef) -> FoundSet:
        return await asyncio.to_thread(_pairs, self._places, await self._fetched(ref, pairs=True))

    async def use(self, ref: ProblemSetRef, id: RunId) -> None:
        if (dataset := dataset_of(ref.name)) is not None:
            await self._datasets.use(dataset, id)

    async def forget(self) -> None:
        """Deletes pairs from this machine in which somebody is forgotten. Raises Unavailable."""
        await self._datasets.forget()

    async def _fetched(self, ref: ProblemSetRef, *, pairs: bool = False) -> ProblemSetRef:
        """Pins a data set to its exact version, and fetches its content to this machine."""
        dataset = dataset_of(ref.name)
        if dataset is None:
            return ref
        try:
            fetch = self._datasets.fetch_pairs if pairs else self._datasets.fetch
            return replace(ref, name=str(await fetch(dataset)))
        except NotFound as error:
            if not error.message.startswith("there is no"):
                raise
            if pairs:
                raise NotFound(f"no pairs {ref.name!r}: use a .jsonl file, or a data set ({error.message})") from error
            known = f"{', '.join(NAMES)}, a .jsonl file, or a data set ({error.message})"
            raise NotFound(f"no problem set {ref.name!r}: use one of {known}") from error
        except FailedPrecondition as error:
            raise InvalidArgument(error.message) from error

    async def trial(self, ref: ProblemSetRef) -> Trial:
        return await self._trials.of(ref)


def _pairs(places: Places, ref: ProblemSetRef) -> FoundSet:
    if dataset_of(ref.name) is None:
        ref = _located(places, ref)
    pairs = load_pairs(ref.name, limit=ref.limit)
    prints = tuple(
        dict.fromkeys(one for pair in pairs for one in taught(pair.as_problem))
    )  # a problem has several pairs
    digest = pair_files.pairs_digest(pairs)
    return FoundSet(
        replace(ref, digest=digest),
        len(pairs),
        fingerprints=prints,
        form=pair_files.form_of(pairs),
        system=next((pair.id for pair in pairs if has_system(pair.messages)), ""),
    )


def _tasks(ref: ProblemSetRef, file: Path) -> FoundSet:
    tasks = TaskSet(file)
    problems = [*folders.problems(tasks, ref.limit).values()]
    return FoundSet(
        replace(ref, digest=data_digest(problems)),
        len(problems),
        next((entry.name for entry in tasks.entries[: ref.limit] if entry.forgeable), ""),
        tuple(one for problem in problems for one in taught(problem)),
        gaps=_gaps(problems),
        has_references=False,
        kinds=tuple(Kind(problem.difficulty, problem.tags) for problem in problems),
    )


def _gaps(problems: Iterable[Problem]) -> tuple[Gap, ...]:
    found: dict[tuple[object, ...], Gap] = {}
    for one in problems:
        gap = Gap(one.id, one.tags, not one.references, not one.tests, bool(one.answers))
        if gap.reference or gap.tests or gap.program:
            found.setdefault((gap.tags, gap.reference, gap.tests, gap.program), gap)
    return tuple(found.values())


def _located(places: Places, ref: ProblemSetRef) -> ProblemSetRef:
    """By its absolute path: the job runs in another folder."""
    path = places.file(ref.name)
    if not path.is_file():
        near = suggestion(path.name, (one.name for one in path.parent.glob(f"*{path.suffix}")))
        raise NotFound(f"there is no file {ref.name}{near}")
    return replace(ref, name=str(path))


def _look_up(places: Places, ref: ProblemSetRef) -> FoundSet:
    if ref.name.endswith(".jsonl"):
        ref = _located(places, ref)
    problems = problem_sets.read(ref.name, limit=ref.limit)
    forgeable = next((problem.id for problem in problems if problem.forgeable), "")
    prints = tuple(one for problem in problems for one in taught(problem))
    examined = () if ref.name in NAMES else problems  # our own are tested
    faults = faults_of([problem for problem in examined if problem.tests], Path(ref.name))
    return FoundSet(
        replace(ref, digest=data_digest(problems)),
        len(problems),
        forgeable,
        prints,
        faults,
        notices(examined),
        gaps=_gaps(problems),
        has_references=any(one.references for one in problems),
        conversation=next((problem.id for problem in problems if problem.conversation), ""),
        system=next((problem.id for problem in problems if has_system(problem.conversation)), ""),
        kinds=tuple(Kind(problem.difficulty, problem.tags) for problem in problems),
        languages=tuple(sorted({problem.language for problem in problems} - {PYTHON})),
    )
