"""What callers do with runs: create, read, watch, cancel, resume, delete."""

from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet_kit import pages
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.names import Location
from ratchet_kit.pages import Page
from ratchet_kit.storage import SPARE_BYTES
from ratchet_kit.times import Clock
from ratchet_kit.work import Priority, Queue, enqueue
from trainer_service.domain.cluster.ports import JobRunner, PolicyHost
from trainer_service.domain.cluster.scheduler import Scheduler
from trainer_service.domain.create import defaults, validation
from trainer_service.domain.create.memory import forecast_of
from trainer_service.domain.inputs.found import FoundModel
from trainer_service.domain.inputs.ports import ModelFolders
from trainer_service.domain.inputs.references import References, notices
from trainer_service.domain.run.checkpoint import SCORE, Checkpoint
from trainer_service.domain.run.ports import Events, RunFile, RunFiles, RunFilter, RunStore
from trainer_service.domain.run.run import Run, RunId, Step
from trainer_service.domain.run.run_updates import RunUpdates
from trainer_service.domain.run.sample import SampleStore
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.spec import ParentCheckpoint, RunSpec

WATCH_POLL = timedelta(seconds=1)
WATCH_STEPS = 500
"""Steps that one message of WatchRun holds at most."""
READ_BYTES = 1 << 20
_NAMED = 10
"""Steps of a parent that a fault names."""
COPIES = 8
"""Of a float32 base that a run's folder holds while it saves, at least: the last checkpoint and the new one, each with
the weights and two moments of Adam, and two exports."""
LORA_COPIES = 3
"""The same where a checkpoint holds adapters: two exports, and the one that is written."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a watcher is sent: the run now, and the steps that are new since the last message."""

    run: Run
    steps: Sequence[Step]


class Runs:
    def __init__(
        self,
        store: RunStore,
        queue: Queue,
        jobs: JobRunner,
        folders: ModelFolders,
        files: RunFiles,
        samples: SampleStore,
        policies: PolicyHost,
        references: References,
        limits: Limits,
        events: Events,
        updates: RunUpdates,
        scheduler: Scheduler,
        clock: Clock,
    ) -> None:
        self._store = store
        self._queue = queue
        self._jobs = jobs
        self._folders = folders
        self._files = files
        self._samples = samples
        self._policies = policies
        self._references = references
        self._limits = limits
        self._events = events
        self._updates = updates
        self._scheduler = scheduler
        self._clock = clock

    async def create(
        self, request_id: str, spec: RunSpec, faults: Faults, actor: str = "", *, validate_only: bool = False
    ) -> Run:
        """Stores and queues a run. The same request again gives the same run, as it is now.

        `faults`: what reading the request has found, for fields of the spec. `actor`: the API key that asks for it.
        `validate_only`: the run is not stored, and no reference of its problems is run.

        Raises:
            InvalidArgument: the spec is at fault; every fault is named.
            AlreadyExists: the request id was used for another spec.
            NotFound: a reward was deleted from the registry at the same time.
            FailedPrecondition: the run does not fit into memory, or the disk has no room for its checkpoints.
            Unavailable: the registry is needed to look at the spec, or the database to store it.
        """
        request = Request.of(request_id, spec)
        if known := await self._store.made_by(request):
            return known
        spec = await self._references.expand(await self._from_parent(spec, faults), faults)
        found = await self._references.find(spec, faults)
        limits = self._limits.beside(self._policies.gpu_memory(), spec.resources.shares_gpu)
        completed = defaults.complete(spec, found, limits)
        validation.check(completed, found, limits, faults)
        faults.raise_if_any("the run cannot be made")
        forecast = forecast_of(completed, found, limits)
        await self._require_space(found.base, completed.hyperparameters.lora_rank or 0)
        trials = () if validate_only else await self._references.trials(completed, found)
        validation.check_trials(trials, faults)
        faults.raise_if_any("the run cannot be made")
        trackers = [logger for logger in completed.loggers if logger in self._limits.trackers]
        run = Run.create(RunId(new_id("run")), completed, self._clock.now(), actor, forecast, trackers)
        for notice in notices(completed, found):
            run = run.noticed(notice, self._clock.now())
        if validate_only:
            return replace(run, id=RunId(""))
        size, tried = sum(one.size for one in trials), sum(one.tried for one in trials)
        if tried < size:
            notice = f"references of {tried} of its {size} problems were run: the others are taken as they are"
            run = run.noticed(notice, self._clock.now())
        for notice in (*defaults.notices(completed), *validation.notices(completed, found)):
            run = run.noticed(notice, self._clock.now())
        await self._references.use(completed, run.id)
        stored = await self._store.create(run, request)
        if stored.id == run.id:
            await self._announce(run)
            await self._enqueue(run)
        return stored

    async def _from_parent(self, spec: RunSpec, faults: Faults) -> RunSpec:
        """With the model of its parent as base, if it has one."""
        if spec.parent is None:
            return spec
        faults.unless(spec.base is None, "base", "must be absent: the run starts from the checkpoint of `parent`")
        try:
            run = await self.get(RunId(spec.parent.run_id))
            there = [one for one in await self._store.checkpoints(run.id, run.spec.steps + 1, -1) if one.uri]
        except NotFound as error:
            faults.add("parent.run_id", error.message)
            return spec
        algorithm = ALGORITHMS.get(run.spec.algorithm)
        if algorithm is not None and algorithm.makes_reward_model:
            own = (
                f"must be a run of a model that writes: run {run.id} makes a reward model, and no run goes on from one"
            )
            faults.add("parent.run_id", own)
            return spec
        model = next((one for one in there if one.step == spec.parent.step), None)
        if model is None:
            steps = ", ".join(str(one.step) for one in there[-_NAMED:]) or "none"
            faults.add("parent.step", f"must be a step whose model is there (run {run.id}: {steps}); `keep` keeps more")
            return spec
        return replace(spec, base=Location(model.uri), parent=_as_parent(run, spec.parent.step))

    async def _require_space(self, base: FoundModel | None, lora_rank: int) -> None:
        copies = LORA_COPIES if lora_rank else COPIES
        checkpoints, free = copies * (base.size_bytes if base else 0), await self._folders.free_bytes()
        missing = checkpoints + SPARE_BYTES - free
        if checkpoints and missing > 0:
            raise FailedPrecondition(
                f"the checkpoints of this run need {_gigabytes(checkpoints)}, and {_gigabytes(SPARE_BYTES)} must"
                f" stay free; {_gigabytes(free)} are free in the folder of runs, so {_gigabytes(missing)} are missing:"
                " delete runs (ratchet runs delete)"
            )

    async def get(self, id: RunId) -> Run:
        """Raises NotFound."""
        return self._scheduler.seen(await self._store.get(id))

    async def page(self, size: int, token: str, only: RunFilter = RunFilter()) -> Page[Run]:
        """The newest first. Raises InvalidArgument for a bad size or token."""

        async def fetch(limit: int, after: str | None) -> Sequence[Run]:
            return [self._scheduler.seen(run) for run in await self._store.page(limit, after, only)]

        return await pages.fetch_page(fetch, lambda run: str(run.id), str, size, token)

    async def cancel(self, id: RunId, actor: str = "") -> Run:
        """The run is over at once; a worker then stops its job.

        Raises:
            NotFound: no such run.
            FailedPrecondition: it has succeeded or failed before.
        """
        run = await self._store.change(id, lambda run: run.cancel(self._clock.now(), actor))
        await self._announce(run)
        await self._enqueue(run)  # it may have a job, and no worker
        return run

    async def resume(self, id: RunId, actor: str = "") -> Run:
        """A run that has failed or was cancelled goes on at its last checkpoint, or at its base where there is none.

        Raises:
            NotFound: no such run.
            FailedPrecondition: it has succeeded.
        """
        run = await self._store.change(id, lambda run: run.resume(self._clock.now(), actor))
        await self._announce(run)
        await self._enqueue(run)
        return run

    async def delete(self, id: RunId) -> None:
        """Deletes a run that is over: its steps, checkpoints and files, and what is left of its job.

        Raises:
            NotFound: no such run.
            FailedPrecondition: it is under way, or another run is that starts from one of its checkpoints.
            Unavailable: its job cannot be stopped now; the run is kept.
        """
        run = await self._store.get(id)
        run.check_deletable()
        for one in await self._store.unfinished():
            if one.spec.parent and one.spec.parent.run_id == id:
                raise FailedPrecondition(
                    f"run {one.id} starts from step {one.spec.parent.step} of run {id}: cancel it first"
                )
        await self._jobs.stop(id, run.attempt)
        await self._policies.release(id, run.attempt)
        await self._samples.remove(id)
        await self._folders.remove(id)
        await self._store.delete(id)
        self._updates.announce(id)

    async def steps(self, id: RunId, size: int, token: str) -> Page[Step]:
        """In order. Raises NotFound, InvalidArgument."""
        await self._store.get(id)

        async def fetch(limit: int, after: int | None) -> Sequence[Step]:
            return await self._store.steps(id, limit, after or 0)

        return await pages.fetch_page(fetch, lambda step: step.number, int, size, token)

    async def checkpoints(self, id: RunId, size: int, token: str) -> Page[Checkpoint]:
        """In the order of their steps. Raises NotFound, InvalidArgument."""
        await self._store.get(id)

        async def fetch(limit: int, after: int | None) -> Sequence[Checkpoint]:
            return await self._store.checkpoints(id, limit, -1 if after is None else after)

        return await pages.fetch_page(fetch, lambda checkpoint: checkpoint.step, int, size, token)

    async def files(self, id: RunId, size: int, token: str) -> Page[RunFile]:
        """By name. Raises NotFound, InvalidArgument."""
        await self._store.get(id)
        found = await self._files.files(id)

        async def fetch(limit: int, after: str | None) -> Sequence[RunFile]:
            return [one for one in found if after is None or one.name > after][:limit]

        return await pages.fetch_page(fetch, lambda one: one.name, str, size, token)

    async def read(self, id: RunId, name: str, offset: int) -> tuple[bytes, int]:
        """At most READ_BYTES of a file from `offset` on, and the size of all of it. Raises NotFound and
        InvalidArgument."""
        faults = Faults()
        faults.bounds("offset", offset, at_least=0)
        faults.raise_if_any("the file cannot be read")
        await self._store.get(id)
        known = next((one for one in await self._files.files(id) if one.name == name), None)
        if known is None:
            raise NotFound(f"run {id} has no file {name!r}: ratchet runs files {id}")
        return await self._files.read(id, name, offset, READ_BYTES), known.size_bytes

    async def watch(self, id: RunId, after_step: int) -> AsyncGenerator[Progress, None]:
        """The run as it is, then again at each change, until it is over. Raises NotFound.

        A step that a later attempt repeats is not sent again: the numbers a watcher sees only grow. One is, once its
        checkpoint was scored by an evaluation.
        """
        seen: Run | None = None
        scored: set[int] = set()
        while True:
            run = await self.get(id)
            steps = await self._store.steps(id, WATCH_STEPS, after_step)
            late = await self._scored(run, after_step, scored) if run != seen else ()
            if run != seen or steps:
                yield Progress(run, [*late, *steps])
            seen = run
            scored.update(step.number for step in (*late, *steps) if SCORE in step.metrics)
            if steps:
                after_step = steps[-1].number
            if len(steps) == WATCH_STEPS:
                continue
            if run.state.is_final:
                return
            await self._updates.wait(id, WATCH_POLL)

    async def _scored(self, run: Run, up_to: int, known: Collection[int]) -> Sequence[Step]:
        """Steps up to this one that have the score of an evaluation, but for those that are known to have it."""
        if not run.spec.validate:
            return ()
        checkpoints = await self._store.checkpoints(run.id, up_to + 1, -1)
        new = [one.step for one in checkpoints if one.is_scored and one.step <= up_to and one.step not in known]
        return [step for number in new for step in await self._store.steps(run.id, 1, number - 1)]

    async def _enqueue(self, run: Run) -> None:
        await enqueue(self._queue, run.id, Priority(run.spec.priority))

    async def _announce(self, run: Run) -> None:
        self._updates.announce(run.id)
        await self._events.changed(run)


def _as_parent(run: Run, step: int) -> ParentCheckpoint:
    before = run.spec.parent or ParentCheckpoint("", 0, run.spec.base)
    problems, pairs = before.problems, before.pairs
    if run.spec.pairs:
        pairs = (*pairs, run.spec.pairs)
    else:
        problems = (*problems, run.spec.problems, *(one.problems for one in run.drawn_by(step)))
    return ParentCheckpoint(run.id, step, before.base, problems, pairs)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
