"""Reports of jobs. One of a stale attempt, or of a run that is over, is refused."""

from dataclasses import dataclass

from ratchet_kit.errors import FailedPrecondition, Failure
from ratchet_kit.times import Clock
from ratchet_kit.usage import Usage
from trainer_service.domain.guards import guards
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.ports import Events, RunStore
from trainer_service.domain.run.run import Phase, Run, RunId, State, Step
from trainer_service.domain.run.run_updates import RunUpdates
from trainer_service.domain.spec.thresholds import FIRST


@dataclass(frozen=True, slots=True)
class StepReply:
    """The answer to a report of a step."""

    cancelled: bool
    """The run was cancelled, or a guard has stopped it: the job stops."""


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The answer to a heartbeat."""

    preempted: bool
    """The job is to save and end after the step under way. A later answer may take that back."""


class Reports:
    """Every method is idempotent. Raises NotFound; FailedPrecondition for a stale attempt or a run that is over."""

    def __init__(self, store: RunStore, events: Events, updates: RunUpdates, clock: Clock) -> None:
        self._store = store
        self._events = events
        self._updates = updates
        self._clock = clock

    async def started(self, id: RunId, attempt: int) -> None:
        await self._announce(await self._store.change(id, lambda run: run.begin(attempt, self._clock.now())))

    async def heartbeat(
        self, id: RunId, attempt: int, waits_for: str = "", usage: Usage | None = None
    ) -> HeartbeatReply:
        """Announces nothing where the job waits for nothing: the run has not changed."""
        run = await self._store.change(
            id, lambda run: _used(run.beat(attempt, self._clock.now(), waits_for), attempt, usage)
        )
        if waits_for:
            self._updates.announce(id)
        return HeartbeatReply(preempted=bool(run.preempted_by))

    async def phase(self, id: RunId, attempt: int, phase: Phase) -> None:
        await self._store.change(id, lambda run: run.enter(attempt, phase, self._clock.now()))
        self._updates.announce(id)

    async def step(self, id: RunId, step: Step, usage: Usage | None = None) -> StepReply:
        """A run that was cancelled is not an error here: the job ends in good order."""
        try:
            run = await self._store.record_step(
                id,
                step,
                lambda run, replaced: _used(run.progress(step, replaced, self._clock.now()), step.attempt, usage),
            )
        except FailedPrecondition:
            if (await self._store.get(id)).state is State.CANCELLED:
                return StepReply(cancelled=True)
            raise
        guarded = await self._guarded(run, step)
        if guarded.notices != run.notices:
            await self._announce(guarded)
        else:
            self._updates.announce(id)
        return StepReply(cancelled=guarded.state.is_final)

    async def _guarded(self, run: Run, step: Step) -> Run:
        """The run with what its guards say of this step; FAILED where one of them stops it before its last step."""
        first = await self._store.steps(run.id, FIRST, 0)
        last = await self._store.steps(run.id, guards.WINDOW, max(FIRST, step.number - guards.WINDOW))
        series = [one.metrics for one in (*first, *last) if one.number <= step.number]
        findings = guards.examine(series, run.spec.thresholds, step.number, run.notices, is_last=run.has_all_steps)
        if not findings:
            return run
        now = self._clock.now()

        def with_findings(run: Run) -> Run:
            if run.state.is_final:  # cancelled meanwhile
                return run
            for finding in findings:
                run = run.noticed(finding.message, now, finding.guard)
            stops = [finding.message for finding in findings if finding.stops]
            return run.stopped(stops[0], now) if stops and not run.has_all_steps else run

        return await self._store.change(run.id, with_findings)

    async def checkpoint(self, id: RunId, attempt: int, checkpoint: Checkpoint) -> None:
        await self._store.record_checkpoint(
            id, checkpoint, lambda run, checkpoints: run.checkpointed(attempt, checkpoints, self._clock.now())
        )
        self._updates.announce(id)

    async def finished(self, id: RunId, attempt: int, failure: Failure | None, usage: Usage | None = None) -> None:
        """With a `failure` the run has failed for good; without one, its best checkpoint is registered next."""

        def end(run: Run) -> Run:
            now = self._clock.now()
            run = _used(run, attempt, usage)
            return run.broken(attempt, failure, now) if failure else run.trained(attempt, now)

        await self._announce(await self._store.change(id, end))

    async def _announce(self, run: Run) -> None:
        self._updates.announce(run.id)
        await self._events.changed(run)


def _used(run: Run, attempt: int, usage: Usage | None) -> Run:
    """`usage`: None of a job of an older version."""
    return run.used(attempt, usage) if usage else run
