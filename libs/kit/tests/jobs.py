"""A store of jobs in memory, and a worker that does them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound, RatchetError, Unavailable
from ratchet_kit.work import Waiting
from ratchet_kit.worker import Timing, Worker
from ratchet_testing.clock import ManualClock

FAST = Timing(
    beat=timedelta(seconds=0.02),
    reconcile=timedelta(seconds=0.05),
    settle=timedelta(seconds=5),
    block=timedelta(seconds=0.05),
    pause=timedelta(seconds=0.01),
)
LEASE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    create_time: datetime
    state: str = "queued"
    owner: str = ""
    until: datetime | None = None
    attempts: int = 0
    reason: str = ""


class Jobs:
    """A store of jobs."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.by_id: dict[str, Job] = {}
        self.is_away = False

    def add(self, *ids: str) -> None:
        self.by_id |= {id: Job(id, self.clock.now()) for id in ids}

    def states(self) -> dict[str, str]:
        return {id: job.state for id, job in self.by_id.items()}

    def get(self, id: str) -> Job:
        if self.is_away:
            raise Unavailable("the database is away")
        if id not in self.by_id:
            raise NotFound(f"there is no job {id}")
        return self.by_id[id]

    def change(self, id: str, **values: object) -> Job:
        job = self.get(id)
        if job.state in ("done", "failed", "cancelled"):
            raise FailedPrecondition(f"job {id} is {job.state}")
        self.by_id[id] = replace(job, **values)
        return self.by_id[id]


class JobWork:
    """Work on jobs: `do` is the test's."""

    kind = "job"

    def __init__(self, jobs: Jobs, owner: str, do: Callable[[Job], object]) -> None:
        self._jobs = jobs
        self._owner = owner
        self._do = do

    async def claim(self, id: str) -> Job:
        job, now = self._jobs.get(id), self._jobs.clock.now()
        if job.owner not in ("", self._owner) and job.until is not None and job.until > now:
            raise Aborted(f"job {id} is with {job.owner}")
        return self._jobs.change(id, state="running", owner=self._owner, until=now + LEASE, attempts=job.attempts + 1)

    async def renew(self, claim: Job) -> None:
        if self._jobs.get(claim.id).owner != self._owner:
            raise Aborted(f"job {claim.id} is another's")
        self._jobs.change(claim.id, until=self._jobs.clock.now() + LEASE)

    async def release(self, claim: Job, *, attempted: bool) -> None:
        self._jobs.change(claim.id, owner="", until=None, attempts=claim.attempts - (not attempted))

    async def do(self, claim: Job) -> None:
        result = self._do(claim)
        if asyncio.iscoroutine(result):
            await result
        self._jobs.change(claim.id, state="done")

    async def fail(self, claim: Job, error: RatchetError) -> None:
        self._jobs.change(claim.id, state="failed", reason=error.message)

    async def waiting(self) -> list[Waiting]:
        self._jobs.get(next(iter(self._jobs.by_id)))
        now = self._jobs.clock.now()
        return [
            Waiting(job.id, job.create_time)
            for job in self._jobs.by_id.values()
            if job.state in ("queued", "running") and (job.until is None or job.until <= now)
        ]


class LeasedWork(JobWork):
    """The store keeps no hold, and does not count who takes it."""

    async def claim(self, id: str) -> Job:
        return self._jobs.get(id)

    async def renew(self, claim: Job) -> None:
        pass

    async def release(self, claim: Job, *, attempted: bool) -> None:
        pass


def nothing(_: Job) -> None:
    pass


async def forever(_: Job) -> None:
    await asyncio.Event().wait()


def worker(queue, jobs: Jobs, do: Callable[[Job], object] = nothing, name: str = "a", **options) -> Worker:
    return Worker(queue, JobWork(jobs, name, do), jobs.clock, timing=FAST, **options)


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(5):
            await task
