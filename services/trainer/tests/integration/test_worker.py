"""The worker over a real Redis; the jobs are played by the test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis.asyncio

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.queues import StreamQueue
from ratchet_kit.streams import Stream
from ratchet_kit.work import Priority
from ratchet_kit.worker import Timing, Worker
from trainer_service.domain.cluster.scheduler import Sharing
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId, State, Step
from trainer_service.main import Service, provision
from trainer_service.settings import Settings

from ..memory import MemoryJobs

pytestmark = pytest.mark.integration

LEASE = timedelta(seconds=0.6)


@pytest.fixture
def make_queue(redis: redis.asyncio.Redis) -> Callable[..., StreamQueue]:
    return lambda name="worker-1": StreamQueue(Stream(redis, "trainer.runs", "trainer", name, lease=LEASE))


@pytest.fixture
def queue(make_queue: Callable[..., StreamQueue]) -> StreamQueue:
    return make_queue()


@pytest.fixture
async def service(trainer: Any, queue: StreamQueue) -> AsyncIterator[Service]:
    """Over the real queue."""
    timing = Timing(beat=LEASE / 4, reconcile=timedelta(seconds=0.1), block=timedelta(seconds=0.2))
    ports = replace(trainer.ports, queue=queue)
    sharing = Sharing(interval=timedelta(seconds=0.05))
    async with provision(
        Settings(), ports=ports, deadlines=trainer.deadlines, timing=timing, sharing=sharing
    ) as service:
        yield service


@pytest.fixture
def worker(service: Service) -> Worker[Any]:
    return service.worker


@pytest.fixture
async def run(trainer: Any, make_spec: Any) -> Run:
    created: Run = await trainer.create("r1", make_spec(steps=1))
    trainer.clock.advance(timedelta(minutes=1))
    return created


@asynccontextmanager
async def working(*background: Callable[[asyncio.Event], Awaitable[None]]) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for work in background:
            group.create_task(work(stop))
        try:
            yield stop
        finally:
            stop.set()


async def until(holds: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(10):
        while not await holds():
            await asyncio.sleep(0.02)


async def job_is_up(trainer: Any, run: Run) -> None:
    async def submitted() -> bool:
        return bool(trainer.jobs.submitted)

    await until(submitted)
    if (await trainer.store.get(run.id)).state is State.STARTING:
        await trainer.reports.started(run.id, 1)


async def job_ends(trainer: Any, run: Run) -> None:
    now = trainer.clock.now()
    await trainer.reports.step(run.id, Step(1, {}, "sha256:1", now, 1))
    await trainer.reports.checkpoint(run.id, 1, Checkpoint(1, "/exports/1", "sha256:1", now))
    await trainer.reports.finished(run.id, 1, None)
    trainer.jobs.end(run.id, 1)

    async def over() -> bool:
        return (await trainer.store.get(run.id)).state is State.SUCCEEDED

    await until(over)


async def is_held(queue: StreamQueue, *ids: RunId) -> None:
    async def held() -> bool:
        return await queue.held() == frozenset(ids)

    await until(held)


async def test_a_run_leaves_the_queue_when_it_is_over(
    trainer: Any, queue: StreamQueue, worker: Worker[Any], run: Run
) -> None:
    await queue.publish(run.id, Priority.HIGH)
    async with working(worker.run):
        await job_is_up(trainer, run)
        await asyncio.sleep(LEASE.total_seconds() * 1.5)  # the lease is renewed meanwhile
        assert await queue.held() == {run.id}
        await job_ends(trainer, run)
        await is_held(queue)


async def test_after_flushall_the_run_goes_on_with_the_job_it_has(
    trainer: Any, queue: StreamQueue, worker: Worker[Any], run: Run, redis: redis.asyncio.Redis
) -> None:
    await queue.publish(run.id, Priority.NORMAL)
    async with working(worker.run):
        await job_is_up(trainer, run)
        await redis.flushall()
        await is_held(queue, run.id)
        await asyncio.sleep(LEASE.total_seconds())
        await job_ends(trainer, run)
        await is_held(queue)
    assert trainer.jobs.submitted == [(run.id, 1)]


async def test_the_run_of_a_dead_worker_goes_to_another(
    trainer: Any, queue: StreamQueue, worker: Worker[Any], run: Run, make_queue: Callable[..., StreamQueue]
) -> None:
    await queue.publish(run.id, Priority.NORMAL)
    assert await make_queue("worker-0").take(timedelta(seconds=1))  # and dies
    async with working(worker.run):
        await job_is_up(trainer, run)
        await job_ends(trainer, run)


async def test_a_worker_that_stops_lets_its_run_go_with_its_job(
    trainer: Any, queue: StreamQueue, worker: Worker[Any], run: Run
) -> None:
    await queue.publish(run.id, Priority.NORMAL)
    async with working(worker.run):
        await job_is_up(trainer, run)
    assert not trainer.jobs.stopped
    assert await queue.held() == {run.id}
    async with working(worker.run):
        await job_ends(trainer, run)


async def test_one_run_at_a_time_by_priority(
    trainer: Any, queue: StreamQueue, service: Service, make_spec: Any
) -> None:
    runs = [await trainer.create("", make_spec(steps=1, priority=priority)) for priority in ("low", "normal", "high")]
    for run in runs:
        await queue.publish(run.id)  # the first comes first, and leaves its turn to the last
    async with working(service.worker.run, service.scheduler.run):
        for run in reversed(runs):
            await is_submitted_last(trainer, run)
            await trainer.reports.started(run.id, 1)
            await job_ends(trainer, run)


async def is_submitted_last(trainer: Any, run: Run) -> None:
    async def last() -> bool:
        return bool(trainer.jobs.submitted) and trainer.jobs.submitted[-1] == (run.id, 1)

    await until(last)


async def test_what_is_on_the_queue_is_not_put_back(
    trainer: Any, queue: StreamQueue, worker: Worker[Any], run: Run
) -> None:
    assert await worker.reconcile() == [], "the scheduler queues it, when it is its turn"
    await trainer.store.change(run.id, lambda run: run.start(trainer.clock.now(), "here"))
    assert await worker.reconcile() == [run.id]
    assert await worker.reconcile() == []
    await trainer.runs.cancel(run.id)
    delivery = await queue.take(timedelta(seconds=1))
    assert delivery is not None
    await queue.ack(delivery)
    assert await worker.reconcile() == []


async def test_a_message_for_no_run_is_done_with(queue: StreamQueue, worker: Worker[Any]) -> None:
    await queue.publish("run_0", Priority.NORMAL)
    async with working(worker.run):
        await is_held(queue)


@pytest.fixture
async def other(trainer: Any, make_queue: Callable[..., StreamQueue]) -> AsyncIterator[Any]:
    """Another service beside it, with a cluster of its own."""
    jobs = MemoryJobs()
    jobs.place = "there"
    timing = Timing(beat=LEASE / 4, reconcile=timedelta(seconds=0.1), block=timedelta(seconds=0.2))
    ports = replace(trainer.ports, queue=make_queue("worker-2"), jobs=jobs)
    async with provision(Settings(), ports=ports, deadlines=trainer.deadlines, timing=timing) as service:
        yield SimpleNamespace(worker=service.worker, jobs=jobs)


async def leave(trainer: Any, queue: StreamQueue, worker: Worker[Any], run: Run) -> None:
    """The worker takes the run, and ends once its job is up, without a word to anyone."""
    await queue.publish(run.id, Priority.NORMAL)
    working = asyncio.create_task(worker.run(asyncio.Event()))
    await job_is_up(trainer, run)
    await trainer.reports.heartbeat(run.id, 1)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_a_service_follows_the_job_of_another_that_lost_its_lease(
    trainer: Any, queue: StreamQueue, worker: Worker[Any], run: Run, other: Any
) -> None:
    await leave(trainer, queue, worker, run)
    async with working(other.worker.run):
        for _ in range(5):
            await asyncio.sleep(LEASE.total_seconds() / 2)
            trainer.clock.advance(timedelta(seconds=50))
            await trainer.reports.heartbeat(run.id, 1)
        assert other.jobs.submitted == []
        await job_ends(trainer, run)
        await is_held(queue)
    assert (await trainer.store.get(run.id)).attempt == 1


async def test_a_service_starts_anew_what_died_with_another(
    trainer: Any, queue: StreamQueue, worker: Worker[Any], run: Run, other: Any
) -> None:
    await leave(trainer, queue, worker, run)

    async def is_started() -> bool:
        trainer.clock.advance(timedelta(seconds=20))
        return bool(other.jobs.submitted)

    async with working(other.worker.run):
        await until(is_started)
        assert other.jobs.submitted == [(run.id, 2)]
        with pytest.raises(FailedPrecondition, match="attempt 1 is stale"):
            await trainer.reports.step(run.id, Step(1, {}, "sha256:1", trainer.clock.now(), 1))
        await trainer.reports.started(run.id, 2)
        await trainer.reports.step(run.id, Step(1, {}, "sha256:1", trainer.clock.now(), 2))
        await trainer.reports.checkpoint(run.id, 2, Checkpoint(1, "/exports/1", "sha256:1", trainer.clock.now()))
        await trainer.reports.finished(run.id, 2, None)
        other.jobs.end(run.id, 2)
        await is_held(queue)
    assert (await trainer.store.get(run.id)).state is State.SUCCEEDED
