"""Brings one run to its end: its jobs, one attempt after another, then its best checkpoint.

A driver may die at any line, and another one may drive the same run, later or at the same time. So every decision is
made in RunStore, which refuses a transition that somebody else made first. A job is named by its run and attempt, so
that there is one of each.
"""

import asyncio
import hashlib
import json
from dataclasses import asdict, dataclass, replace
from datetime import timedelta

from ratchet_kit.errors import (
    FailedPrecondition,
    Failure,
    Internal,
    InvalidArgument,
    NotFound,
    RatchetError,
    Unavailable,
)
from ratchet_kit.logs import bound, get_logger
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.times import Clock
from trainer_service.domain.ports import (
    Events,
    FoundModel,
    JobRunner,
    JobState,
    Lineage,
    Meter,
    ModelFolders,
    ModelRegistry,
    PolicyHost,
    ProblemSets,
    RegisteredVersion,
    RunStore,
    VersionState,
)
from trainer_service.domain.run import Run, RunId, State
from trainer_service.domain.run_updates import RunUpdates
from trainer_service.domain.spec import ProblemSetRef, RunSpec

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How often and how long the driver waits."""

    max_attempts: int = 5
    """Starts of the job, the first included."""
    silence: timedelta = timedelta(hours=1)
    """A job that reports nothing for so long hangs."""
    finish: timedelta = timedelta(seconds=60)
    """What the job of a run that is over gets to end by itself."""
    stop: timedelta = timedelta(seconds=10)
    """The same, of a run that was cancelled."""
    poll: timedelta = timedelta(seconds=1)
    """Between two looks at a job."""
    retry: timedelta = timedelta(seconds=2)
    """Before what is unavailable is tried again."""


class Driver:
    """Holds nothing of a run between its calls: what it knows, it reads."""

    def __init__(
        self,
        store: RunStore,
        jobs: JobRunner,
        registry: ModelRegistry,
        folders: ModelFolders,
        problems: ProblemSets,
        policies: PolicyHost,
        events: Events,
        updates: RunUpdates,
        meter: Meter,
        clock: Clock,
        code_version: str,
        deadlines: Deadlines = Deadlines(),
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._registry = registry
        self._folders = folders
        self._problems = problems
        self._policies = policies
        self._events = events
        self._updates = updates
        self._meter = meter
        self._clock = clock
        self._code_version = code_version
        self._deadlines = deadlines

    async def drive(self, id: RunId) -> None:
        """Returns when the run is over and has no job left.

        What may pass (an unreachable cluster, registry or database) is tried again for as long as it takes; the run
        can be cancelled meanwhile. Cancelling this call leaves the job alone, for the next driver. Raises NotFound.
        """
        with bound(run_id=id):
            while True:
                try:
                    run = await self._store.get(id)
                    if run.state.is_final:
                        await self._clear(run)
                        return
                    await self._advance(run)
                except FailedPrecondition as error:  # somebody was faster: look again
                    log.info("run.changed_meanwhile", reason=error.message)
                    await self._updates.wait(id, self._deadlines.poll)
                except Unavailable as error:
                    log.warning("run.waiting", reason=error.message)
                    await self._updates.wait(id, self._deadlines.retry)

    async def give_up(self, id: RunId, error: RatchetError) -> None:
        """The run has failed. Raises FailedPrecondition when it is over already."""
        await self._fail(id, Failure.of(error))

    async def _advance(self, run: Run) -> None:
        """One step towards the end."""
        if run.state is State.QUEUED:
            started = await self._store.change(run.id, lambda run: run.start(self._clock.now()))
            await self._submit(started)
            return
        if run.trained_time:
            await self._finish(run)
            return
        job = await self._jobs.status(run.id, run.attempt)
        if job.state is not JobState.ACTIVE:
            await self._restart(run, job.message)
        elif self._clock.now() - run.update_time >= self._deadlines.silence:
            await self._restart(run, "it reported nothing for too long")
        else:
            await self._updates.wait(run.id, self._deadlines.poll)

    async def _submit(self, run: Run) -> None:
        """Tries until the job is submitted or the run has changed.

        The store has the attempt already: a driver that dies here leaves an attempt without a job, and the next driver
        starts the attempt after it.
        """
        await self._changed(run)
        while run.state is State.STARTING:
            try:
                await self._jobs.submit(run, await self._folders.fetch(await self._base(run), run.id))
                log.info("job.submitted", attempt=run.attempt)
                return
            except NotFound as error:
                await self.give_up(run.id, NotFound(f"the base is gone: {error.message}"))
                return
            except Unavailable as error:
                log.warning("job.not_submitted", attempt=run.attempt, reason=error.message)
                await self._updates.wait(run.id, self._deadlines.retry)
            now = await self._store.get(run.id)
            if now.attempt != run.attempt:
                return
            run = now

    async def _restart(self, run: Run, reason: str) -> None:
        fresh = await self._store.get(run.id)
        if fresh.attempt != run.attempt or fresh.state.is_final or fresh.trained_time:
            return  # its last report came in between
        await self._jobs.stop(run.id, run.attempt)
        log.warning("job.lost", attempt=run.attempt, step=run.step, reason=reason)
        if run.attempt >= self._deadlines.max_attempts:
            times = f"{run.attempt} times" if run.attempt > 1 else "once"
            died = f"the job died {times}, the last at step {run.step}: {reason or 'no reason known'}"
            await self.give_up(run.id, Internal(died))
            return
        resumed = await self._store.change(run.id, lambda now: now.resume(run.attempt, self._clock.now()))
        await self._submit(resumed)

    async def _finish(self, run: Run) -> None:
        """Registers the best checkpoint where the spec wants that, without waiting for the registry's copy of it."""
        if not run.spec.output_model:
            await self._succeed(run, None)
            return
        try:
            version = await self._register(run)
        except Unavailable:
            raise
        except RatchetError as error:
            await self.give_up(run.id, error)
            return
        match version.state:
            case VersionState.READY:
                await self._succeed(run, version.ref)
            case VersionState.PENDING:
                await self._updates.wait(run.id, self._deadlines.poll)
            case VersionState.FAILED:
                failure = version.failure or Failure("INTERNAL", "no reason known")
                reason = f"the registry could not make {version.ref}: {failure.message}"
                await self._fail(run.id, replace(failure, message=reason))

    async def _succeed(self, run: Run, version: VersionRef | None) -> None:
        await self._changed(await self._store.change(run.id, lambda run: run.succeed(version, self._clock.now())))
        log.info("run.succeeded", steps=run.step, version=str(version or ""))

    async def _fail(self, id: RunId, failure: Failure) -> None:
        await self._changed(await self._store.change(id, lambda run: run.fail(failure, self._clock.now())))

    async def _clear(self, run: Run) -> None:
        """Waits for the end of the run's job, then stops it, and frees its policy and what it will not resume from."""
        if run.attempt == 0:
            return
        grace = self._deadlines.stop if run.state is State.CANCELLED else self._deadlines.finish
        try:
            async with asyncio.timeout(grace.total_seconds()):
                while (await self._jobs.status(run.id, run.attempt)).state is JobState.ACTIVE:
                    await asyncio.sleep(self._deadlines.poll.total_seconds())
        except TimeoutError:
            log.warning("job.overdue", attempt=run.attempt)
        await self._jobs.stop(run.id, run.attempt)
        await self._policies.release(run.id)
        if run.state is State.SUCCEEDED:
            await self._folders.tidy(run.id)

    async def _register(self, run: Run) -> RegisteredVersion:
        """The version of the best checkpoint, as it is now: the registry makes one per run, however often it is asked.

        Raises Internal when there is no checkpoint, FailedPrecondition when the registry refuses it, and Unavailable.
        """
        best, spec = run.best_checkpoint, run.spec
        if best is None:
            raise Internal("the job reported no checkpoint: there is nothing to register")
        assert spec.base is not None
        lineage = Lineage(
            base=spec.base,
            run_id=run.id,
            data_digest=spec.problems.digest,
            config_digest=config_digest(spec),
            code_version=self._code_version,
            step=best.step,
            training_fingerprints=await self._learned(spec.problems),
        )
        try:
            return await self._registry.register(run.id, spec.output_model, best.uri, lineage)
        except Unavailable:
            raise
        except RatchetError as error:
            raise FailedPrecondition(f"the registry refused the best checkpoint: {error.message}") from error

    async def _learned(self, problems: ProblemSetRef) -> tuple[str, ...]:
        try:
            found = await self._problems.look_up(problems)
        except (NotFound, InvalidArgument) as error:
            log.warning("problems.gone", problems=problems.name, reason=error.message)
            return ()
        return found.fingerprints if found.ref.digest == problems.digest else ()

    async def _base(self, run: Run) -> FoundModel:
        assert run.spec.base is not None
        if isinstance(run.spec.base, Location):
            return await self._folders.inspect(run.spec.base.uri)
        return await self._registry.resolve(run.spec.base)

    async def _changed(self, run: Run) -> None:
        self._updates.announce(run.id)
        self._meter.progressed(run)
        await self._events.changed(run)


def config_digest(spec: RunSpec) -> str:
    """`sha256:<hex>` over the whole spec, in a form that does not depend on the order of fields."""
    text = json.dumps(asdict(spec), sort_keys=True, ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
