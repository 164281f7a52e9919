"""The worker over a real Redis."""

import asyncio
from datetime import timedelta

import pytest

from ratchet_kit.errors import DataLoss, Unavailable
from ratchet_kit.queues import StreamQueue
from ratchet_kit.streams import Stream
from ratchet_kit.work import Priority
from ratchet_kit.worker import Worker
from ratchet_testing.clock import ManualClock
from ratchet_testing.waiting import until

from .jobs import FAST, LEASE, Job, Jobs, LeasedWork, forever, running, worker


@pytest.fixture
def jobs(clock: ManualClock) -> Jobs:
    return Jobs(clock)


def stream_queue(redis, name: str, lease: timedelta = timedelta(seconds=0.3)) -> StreamQueue:
    return StreamQueue(Stream(redis, "jobs", "workers", name, lease=lease))


@pytest.mark.integration
async def test_redis_hands_out_and_forgets(redis, jobs):
    queue = stream_queue(redis, "a")
    jobs.add("1", "2")
    await queue.publish("1")
    await queue.publish("2", Priority.HIGH)
    assert await queue.held() == {"1", "2"}
    done = []
    async with running(worker(queue, jobs, lambda job: done.append(job.id))):
        await until(lambda: set(jobs.states().values()) == {"done"})
    assert done == ["2", "1"]
    assert await queue.depth() == 0


@pytest.mark.integration
async def test_redis_holds_more_than_one_look_reads(redis):
    queue = stream_queue(redis, "a")
    for number in range(1203):
        await queue.publish(str(number))
    assert len(await queue.held()) == 1203


@pytest.mark.integration
async def test_a_killed_worker_leaves_its_work_to_another(redis, jobs, clock):
    jobs.add("1")
    await stream_queue(redis, "a").publish("1")
    killed = asyncio.create_task(worker(stream_queue(redis, "a"), jobs, forever).run(asyncio.Event()))
    await until(lambda: jobs.by_id["1"].owner == "a")
    killed.cancel()
    await asyncio.wait({killed})
    clock.advance(LEASE)
    async with running(worker(stream_queue(redis, "b"), jobs, name="b")):
        await until(lambda: jobs.states() == {"1": "done"})
    assert (jobs.by_id["1"].owner, jobs.by_id["1"].attempts) == ("b", 2)


@pytest.mark.integration
async def test_a_worker_restarted_under_its_name_takes_its_work_up_at_once(redis, jobs):
    jobs.add("1")
    minutes = timedelta(minutes=10)
    await stream_queue(redis, "a").publish("1")
    killed = asyncio.create_task(worker(stream_queue(redis, "a", minutes), jobs, forever).run(asyncio.Event()))
    await until(lambda: jobs.by_id["1"].owner == "a")
    killed.cancel()
    await asyncio.wait({killed})
    async with running(worker(stream_queue(redis, "a", minutes), jobs)):
        await until(lambda: jobs.states() == {"1": "done"})


@pytest.mark.integration
async def test_redis_gives_it_out_as_often_as_it_takes(redis, jobs):
    jobs.add("1")
    stream = Stream(redis, "jobs", "workers", "a", lease=timedelta(seconds=0.05))
    await StreamQueue(stream).publish("1")
    begun = []

    def wait(_: Job) -> None:
        begun.append(1)
        if len(begun) < 8:
            raise Unavailable("the registry is away")

    work = LeasedWork(jobs, "a", wait)
    async with running(Worker(StreamQueue(stream), work, jobs.clock, leased=True, timing=FAST)):
        await until(lambda: jobs.states() == {"1": "done"})
    assert await stream.dead_letters() == []


@pytest.mark.integration
async def test_flushall_loses_nothing(redis, jobs, clock):
    jobs.add(*(str(number) for number in range(20)))
    queue = stream_queue(redis, "a")
    for id in jobs.by_id:
        await queue.publish(id)

    async def slow(_: Job) -> None:
        await asyncio.sleep(0.02)

    async with running(worker(queue, jobs, slow, slots=2)):
        await until(lambda: "done" in jobs.states().values())
        await redis.flushall()
        clock.advance(timedelta(seconds=10))
        await until(lambda: set(jobs.states().values()) == {"done"})
    assert await queue.depth() == 0
    assert all(job.attempts == 1 for job in jobs.by_id.values())


@pytest.mark.integration
async def test_poison_is_kept_with_its_reason(redis, jobs):
    jobs.add("1")
    stream = Stream(redis, "jobs", "workers", "a")
    await StreamQueue(stream).publish("1")

    def fail(_: Job) -> None:
        raise DataLoss("the weights are not whole")

    async with running(worker(StreamQueue(stream), jobs, fail)):
        await until(lambda: jobs.states() == {"1": "failed"})
    [letter] = await stream.dead_letters()
    assert (letter["id"], letter["dead_reason"]) == ("1", "the weights are not whole")
