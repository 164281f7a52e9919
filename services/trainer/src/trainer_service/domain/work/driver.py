"""Brings one run to its end: its jobs, one attempt after another, then its best checkpoint.

A driver may die at any line, and another one may drive the same run, later or at the same time. So every decision is
made in RunStore, which refuses a transition that somebody else made first. A job is named by its run and attempt, so
that there is one of each. One that another driver has submitted elsewhere is known by its heartbeats alone.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ratchet_kit.errors import (
    FailedPrecondition,
    Failure,
    Internal,
    NotFound,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.logs import bound, get_logger
from ratchet_kit.names import AnyModel, Location, VersionRef
from ratchet_kit.permanent import PERMANENT
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from trainer_service.domain.cluster.ports import JobRunner, JobState, JobStatus, PolicyHost
from trainer_service.domain.cluster.scheduler import Scheduler
from trainer_service.domain.inputs.found import FoundModel
from trainer_service.domain.inputs.ports import ModelFolders, ModelRegistry
from trainer_service.domain.run.heartbeat import Heartbeat
from trainer_service.domain.run.ports import Events, RunStore
from trainer_service.domain.run.run import Run, RunId, State
from trainer_service.domain.run.run_updates import RunUpdates
from trainer_service.domain.work.ports import VersionState
from trainer_service.domain.work.registration import Registration
from trainer_service.domain.work.validating import Validating

log = get_logger(__name__)

SILENT = "it sent no heartbeat for too long"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How often and how long the driver waits."""

    max_attempts: int = 5
    """Starts of the job in a row that bring the run no further."""
    silence: timedelta = timedelta(minutes=10)
    """A job that runs and sends no heartbeat for so long hangs."""
    lost: timedelta = timedelta(seconds=60)
    """The same, of a job that was submitted elsewhere, and may be gone with that place, once it has sent one."""
    finish: timedelta = timedelta(seconds=60)
    """What the job of a run that is over gets to end by itself."""
    stop: timedelta = timedelta(seconds=10)
    """The same, of a run that was cancelled."""
    poll: timedelta = timedelta(seconds=1)
    """Between two looks at a job."""
    retry: timedelta = timedelta(seconds=2)
    """Before what is unavailable is tried again."""
    again: timedelta = timedelta(minutes=1)
    """Before a version that the platform could not make is asked for again; n times that, the n-th time."""
    turn: timedelta = timedelta(seconds=30)
    """What a run that has trained waits for the platform before other runs have their turn."""
    bewildered: timedelta = timedelta(minutes=10)
    """How long an unforeseen error may last until the run fails for it."""


class _Untidied(Unavailable):
    """Nobody waits for it: the run is over, and its job gone."""


class Driver:
    """Holds nothing of a run between its calls: what it knows, it reads."""

    def __init__(
        self,
        store: RunStore,
        jobs: JobRunner,
        registry: ModelRegistry,
        folders: ModelFolders,
        registration: Registration,
        validating: Validating,
        policies: PolicyHost,
        events: Events,
        updates: RunUpdates,
        scheduler: Scheduler,
        clock: Clock,
        deadlines: Deadlines = Deadlines(),
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._registry = registry
        self._folders = folders
        self._registration = registration
        self._validating = validating
        self._policies = policies
        self._events = events
        self._updates = updates
        self._scheduler = scheduler
        self._clock = clock
        self._deadlines = deadlines

    async def drive(self, id: RunId) -> None:
        """Returns when the run is over and has no job left; when it waits for its turn: the scheduler then puts it back
        on the queue; and when it has trained, and its checkpoints wait for scores: `Validating` then does.

        What may pass (a cluster, registry or database that is away, a disk that is full) is tried again for as long as
        it takes; the run can be cancelled meanwhile. Cancelling this call leaves the job alone, for the next driver.

        Raises NotFound; Unavailable for a run that has trained and waits for its version, or is over and cannot be
        tidied now: drive it again later, other runs have their turn; and an unforeseen error that has lasted.
        """
        waiting_since: datetime | None = None
        heartbeat = Heartbeat(self._clock)
        with bound(run_id=id):
            while True:
                run: Run | None = None
                try:
                    run = await self._store.get(id)
                    if run.state.is_final:
                        await self._end_job(run)
                        await self._tidy(run)
                        if (await self._store.get(id)).state.is_final:
                            return
                        continue  # it was resumed meanwhile
                    if run.state is State.QUEUED:
                        if not await self._start(run):
                            return
                        continue
                    if run.trained_time and run.spec.validate and await self._validating.awaits(run):
                        return
                    await self._advance(run, heartbeat)
                    waiting_since = None
                    continue
                except FailedPrecondition as error:  # somebody was faster: look again
                    log.info("run.changed_meanwhile", reason=error.message)
                    await self._updates.wait(id, self._deadlines.poll)
                    continue
                except (NotFound, _Untidied):
                    raise
                except Exception as error:  # noqa: BLE001 (it is logged below, and raised where it lasts)
                    fault = error
                heartbeat.forget()  # while nothing could be read, nothing could be heard
                waiting_since = waiting_since or self._clock.now()
                self._bear(fault, run, self._clock.now() - waiting_since)
                await self._updates.wait(id, self._deadlines.retry)

    def _bear(self, fault: Exception, run: Run | None, waited: timedelta) -> None:
        """Logs what a run waits for; raises it, or Unavailable, when this driver has waited for long enough."""
        reason = fault.message if isinstance(fault, RatchetError) else f"{type(fault).__name__}: {fault}"
        foreseen = isinstance(fault, OUTSIDE)
        log.warning("run.waiting", reason=reason, exc_info=None if foreseen else fault)
        if run is not None and run.trained_time and waited >= self._deadlines.turn:
            raise Unavailable(reason) from fault
        if not foreseen and waited >= self._deadlines.bewildered:
            raise fault

    async def give_up(self, id: RunId, error: RatchetError) -> None:
        """The run has failed. Raises FailedPrecondition when it is over already, Unavailable when it has trained: it
        does not fail for what it has met since then."""
        if (await self._store.get(id)).trained_time:
            raise Unavailable(error.message)
        await self._fail(id, Failure.of(error))

    async def _advance(self, run: Run, heartbeat: Heartbeat) -> None:
        """One step of a run that has begun towards its end."""
        if run.trained_time:
            await self._finish(run)
            return
        job = await self._jobs.status(run.id, run.attempt)
        silent = heartbeat.silent_for(run)
        if job.state is JobState.UNKNOWN and run.place != self._jobs.place:
            is_gone = silent >= (self._deadlines.lost if run.heartbeat_time else self._deadlines.silence)
        elif job.state is JobState.ACTIVE:
            is_gone = silent >= self._deadlines.silence
        else:
            is_gone = job.state is not JobState.WAITING
        if is_gone:
            await self._restart(run, replace(job, message=SILENT) if job.state is JobState.ACTIVE else job)
        else:
            await self._updates.wait(run.id, self._deadlines.poll)

    async def _start(self, run: Run) -> bool:
        """Begins the next attempt. False when it is not the run's turn."""
        await self._stop_job(run)  # of the attempt before, where it was resumed
        started = await self._scheduler.start(run.id)
        if started is None:
            return False
        await self._submit(started)
        return True

    async def _submit(self, run: Run) -> None:
        """Tries until the job is submitted or the run has changed.

        The store has the attempt already: a driver that dies here leaves an attempt without a job, and the next driver
        starts the attempt after it.
        """
        await self._changed(run)
        while run.state is State.STARTING:
            try:
                found = await self._model(run.spec.base)
                base = await self._folders.fetch(found, run.id, chat_template=run.spec.chat_template)
                scored_by = run.spec.reward.model
                reward_model = (
                    await self._folders.fetch(await self._model(scored_by), run.id, "reward-model")
                    if scored_by
                    else None
                )
                await self._jobs.submit(run, base, reward_model)
                log.info("job.submitted", attempt=run.attempt)
                return
            except NotFound as error:
                await self.give_up(run.id, NotFound(f"a model that it needs is gone: {error.message}"))
                return
            except PERMANENT as error:
                await self.give_up(run.id, error)
                return
            except OUTSIDE as error:
                log.warning("job.not_submitted", attempt=run.attempt, reason=error.message)
                await self._updates.wait(run.id, self._deadlines.retry)
            now = await self._store.get(run.id)
            if now.attempt != run.attempt:
                return
            run = now

    async def _restart(self, run: Run, job: JobStatus) -> None:
        fresh = await self._store.get(run.id)
        if fresh.attempt != run.attempt or fresh.state.is_final or fresh.trained_time:
            return  # its last report came in between
        await self._stop_job(run)
        reason = job.message
        if fresh.preempted_by:
            log.info("run.made_room", attempt=run.attempt, step=fresh.step, preempted_by=fresh.preempted_by)
        else:
            log.warning("job.lost", attempt=run.attempt, step=run.step, reason=reason, out_of_memory=job.out_of_memory)
        if job.out_of_memory and fresh.is_leanest:
            await self.give_up(run.id, ResourceExhausted(_ran_out(fresh)))
            return
        excuse = f"attempt {run.attempt}: {reason or 'no room on the cluster for its ranks'}" if job.no_room else ""
        is_counted = not excuse and not fresh.preempted_by
        if is_counted and fresh.futile_attempts >= self._deadlines.max_attempts:
            times = f"{fresh.futile_attempts} times" if fresh.futile_attempts > 1 else "once"
            died = f"the job died {times}, the last at step {fresh.step}: {reason or 'no reason known'}"
            await self.give_up(run.id, Internal(died))
            return

        def again(now: Run) -> Run:
            at = self._clock.now()
            if job.out_of_memory:
                return now.leaner(run.attempt, at)
            return now.again(run.attempt, at, excuse, reason or "no reason known")

        await self._changed(await self._store.change(run.id, again))

    async def _finish(self, run: Run) -> None:
        """Registers the best checkpoint where the spec wants that, without waiting for the registry's copy of it."""
        if not run.spec.output_model:
            await self._succeed(run, None)
            return
        try:
            version = await self._registration.version(run)
        except OUTSIDE:
            raise
        except RatchetError as error:
            await self._fail(run.id, Failure.of(error))
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

    async def _end_job(self, run: Run) -> None:
        """Waits for the end of the run's job, then stops it, and frees its policy."""
        if run.attempt == 0:
            return
        grace = self._deadlines.stop if run.state is State.CANCELLED else self._deadlines.finish
        try:
            async with asyncio.timeout(grace.total_seconds()):
                while (await self._jobs.status(run.id, run.attempt)).state is JobState.ACTIVE:
                    await asyncio.sleep(self._deadlines.poll.total_seconds())
        except TimeoutError:
            log.warning("job.overdue", attempt=run.attempt)
        await self._stop_job(run)

    async def _tidy(self, run: Run) -> None:
        """Frees what a run that is over does not keep. Raises _Untidied."""
        if run.attempt == 0:
            return
        try:
            if run.spec.validate:
                await self._validating.abandon(run)
            await self._validating.tidy(run)
            if run.state is State.SUCCEEDED:
                await self._folders.tidy(run.id)
        except OUTSIDE as error:
            raise _Untidied(f"what it leaves waits: {error.message}") from error

    async def _stop_job(self, run: Run) -> None:
        """Of its attempt, and frees the policies of that and of those before."""
        if run.attempt:
            await self._jobs.stop(run.id, run.attempt)
            await self._policies.release(run.id, run.attempt)

    async def _model(self, ref: AnyModel | None) -> FoundModel:
        assert ref is not None  # of a valid spec
        if isinstance(ref, Location):
            return await self._folders.inspect(ref.uri)
        return await self._registry.resolve(ref)

    async def _changed(self, run: Run) -> None:
        self._updates.announce(run.id)
        await self._events.changed(run)


def _ran_out(run: Run) -> str:
    passes, forecast = run.passes, run.forecast
    expected = f", where {forecast.peak_bytes / 2**30:.1f} GiB were expected" if forecast else ""
    again = "also " if run.out_of_memory else ""
    return (
        f"training ran out of memory at step {run.step}, {again}with passes of {passes.tokens} tokens"
        f"{' and activations made a second time' if passes.recomputed else ''}{expected}: take shorter sequences, a"
        " smaller base, or give it more memory"
    )
