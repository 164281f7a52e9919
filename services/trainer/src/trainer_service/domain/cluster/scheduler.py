"""Gives runs their turn: starts them, stops others for them, and says what each waits for.

Each service does it for the place of its own jobs, by the rules of `preemption`. The outcome is stored under a lock on
all unfinished runs, so that two services, at one place or at two, do not give the same room or the same run away.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from ratchet_kit.work import Priority, WorkQueue, enqueue, every
from trainer_service.domain.cluster import preemption
from trainer_service.domain.cluster.capacity import Demand, Node, Room
from trainer_service.domain.cluster.ports import JobRunner, PolicyHost
from trainer_service.domain.cluster.preemption import Plan
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import Phase, Run, RunId, State
from trainer_service.domain.run.run_updates import RunUpdates

log = get_logger(__name__)

_UNPLACED = {Phase.SUBMITTING, Phase.LOADING_MODEL, Phase.LOADING_POLICY}
"""Phases in which a job's ranks may have no accelerators yet."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How runs share the cluster."""

    runs: int = 1
    """At once."""
    memory_bytes: int | None = None
    """That all of them may take together. None: not known, or each has its own."""
    worth_stopping: timedelta = timedelta(minutes=2)
    """A run that ends sooner is not stopped for another."""
    interval: timedelta = timedelta(seconds=2)
    """Between two looks at who is next."""


@dataclass(frozen=True, slots=True)
class _Arranged:
    plan: Plan
    changed: Sequence[Run] = ()
    """As they are stored now."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster as people see it."""

    place: str
    holders: Mapping[Node, Sequence[RunId]]
    waiting: Sequence[Run]
    """QUEUED runs, in their turn."""


class Scheduler:
    def __init__(
        self,
        store: RunStore,
        queue: WorkQueue,
        jobs: JobRunner,
        policies: PolicyHost,
        updates: RunUpdates,
        clock: Clock,
        sharing: Sharing,
    ) -> None:
        self._store = store
        self._queue = queue
        self._jobs = jobs
        self._policies = policies
        self._updates = updates
        self._clock = clock
        self._sharing = sharing
        self._waits: Mapping[RunId, str] = {}

    def seen(self, run: Run) -> Run:
        """The run with what it waits for, as far as that is known."""
        return replace(run, waits_for=self._waits.get(run.id, "")) if run.state is State.QUEUED else run

    async def run(self, stop: asyncio.Event) -> None:
        """Looks again and again, until `stop` is set."""
        await every(self._sharing.interval, stop, self.look, name="give turns")

    async def look(self) -> None:
        """Stops runs that others are to have the room of, and puts those whose turn it is on the queue of the workers.

        Raises Unavailable.
        """
        runs = {run.id: run for run in await self._store.unfinished()}
        if not any(run.state is State.QUEUED or run.preempted_by for run in runs.values()):
            self._waits = {}
            await self._jobs.want(self._wanted(runs.values()))
            return
        plan = (await self._arrange()).plan
        if plan.starts:
            held = await self._queue.held()
            for id in plan.starts:
                if id in runs and id not in held:
                    await enqueue(self._queue, id, Priority(runs[id].spec.priority))
        await self._jobs.want(self._wanted(runs.values()))

    def _wanted(self, runs: Collection[Run]) -> Sequence[Demand]:
        """Demands of the runs that take room and that wait for it, as many as may be under way at a time. Empty where
        no run waits and all have their ranks placed: what is taken, a cluster keeps by itself."""
        here = preemption.at(self._jobs.place, [*runs])
        queued = sorted((run for run in runs if run.state is State.QUEUED), key=preemption.turn)
        if not queued and not any(run.phase in _UNPLACED for run in here):
            return ()
        return [Demand.of(run) for run in [*here, *queued][: max(self._sharing.runs, len(here))]]

    async def cluster(self) -> "Overview":
        """Raises Unavailable."""
        runs, holders = await self._store.unfinished(), await self._jobs.holders()
        queued = sorted((run for run in runs if run.state is State.QUEUED), key=preemption.turn)
        if len(holders) == 1:
            here = [run.id for run in preemption.at(self._jobs.place, runs)]
            holders = dict.fromkeys(holders, tuple(here))
        return Overview(self._jobs.place, holders, [self.seen(run) for run in queued])

    async def start(self, id: RunId) -> Run | None:
        """The run as STARTING under its next attempt; None when it is not its turn. Raises Unavailable."""
        changed = (await self._arrange(id)).changed
        return next((run for run in changed if run.id == id), None)

    async def _arrange(self, starting: RunId | None = None) -> _Arranged:
        """Stores what becomes of the runs here: of those that are to make room, and of the one that is `starting`."""
        room = await self._room()
        runs = await self._store.unfinished()
        spare = await self._spare(runs, preemption.plan(runs, self._jobs.place, room))
        plan = preemption.plan(runs, self._jobs.place, room, spare)
        self._waits = plan.waits
        if not self._changes(runs, plan, starting):
            return _Arranged(plan)

        def arrange(runs: Sequence[Run]) -> Sequence[Run]:
            nonlocal plan
            plan = preemption.plan(runs, self._jobs.place, room, spare)
            return self._changes(runs, plan, starting)

        changed = await self._store.arrange(arrange)
        for run in changed:
            if run.id != starting:
                log.info("run.to_make_room", run_id=run.id, preempted_by=run.preempted_by)
                self._updates.announce(run.id)
        return _Arranged(plan, changed)

    def _changes(self, runs: Sequence[Run], plan: Plan, starting: RunId | None) -> list[Run]:
        now, changed = self._clock.now(), []
        for run in preemption.at(self._jobs.place, runs):
            by = plan.preempted.get(run.id, "")
            if run.preempted_by != by and run.state is State.RUNNING:
                changed.append(run.preempt(run.attempt, by, now))
        if starting in plan.starts:
            changed += [
                run.start(now, self._jobs.place, plan.nodes.get(run.id, 0)) for run in runs if run.id == starting
            ]
        return changed

    async def _room(self) -> Room:
        try:
            nodes = await self._jobs.nodes()
        except OUTSIDE as error:
            queued = [run.id for run in await self._store.unfinished() if run.state is State.QUEUED]
            self._waits = dict.fromkeys(queued, _reason(error))
            raise
        return Room(self._sharing.runs, nodes, self._policies.places(), self._sharing.memory_bytes)

    async def _spare(self, runs: Sequence[Run], plan: Plan) -> Collection[RunId]:
        """Those that may be stopped for the one that waits first: they have come further, and do not end soon."""
        if plan.head is None:
            return ()
        lower = [
            run for run in preemption.at(self._jobs.place, runs) if preemption.rank(run) > preemption.rank(plan.head)
        ]
        spare = []
        for run in lower:
            last = await self._store.steps(run.id, 1, run.step - 1)
            left = preemption.time_left(run, last[0] if last else None)
            if left is not None and left > self._sharing.worth_stopping:
                spare.append(run.id)
        return spare


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, RatchetError) else str(error)
