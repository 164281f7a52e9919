"""The worker over a store and a queue in memory."""

import asyncio
import gc
from datetime import timedelta

import pytest

from ratchet_kit import projects
from ratchet_kit.errors import DataLoss, Unavailable
from ratchet_kit.work import Priority, enqueue
from ratchet_kit.worker import Worker
from ratchet_testing.clock import ManualClock
from ratchet_testing.queue import MemoryQueue
from ratchet_testing.waiting import until

from .jobs import FAST, LEASE, Job, Jobs, JobWork, LeasedWork, forever, nothing, running, worker


@pytest.fixture
def jobs(clock: ManualClock) -> Jobs:
    return Jobs(clock)


@pytest.fixture
def queue() -> MemoryQueue:
    return MemoryQueue()


async def test_what_is_done_is_acknowledged(queue, jobs):
    jobs.add("1", "2")
    await queue.publish("1")
    await queue.publish("2", Priority.HIGH)
    done = []
    async with running(worker(queue, jobs, lambda job: done.append(job.id))):
        await until(lambda: jobs.states() == {"1": "done", "2": "done"})
        await until(lambda: not queue.leased)
    assert done == ["2", "1"]


async def test_work_is_done_for_the_project_of_its_id(queue, jobs):
    ids = ["run_01JD3MZ5Y1W4C8T9Q2K7V6B0XN-acme", "run_01JD3MZ5Y1W4C8T9Q2K7V6B0XP", "acme~coder@1"]
    jobs.add(*ids)
    for id in ids:
        await queue.publish(id)
    done = {}
    async with running(worker(queue, jobs, lambda job: done.update({job.id: projects.current()}))):
        await until(lambda: len(done) == 3)
    assert done == dict(zip(ids, ["acme", projects.DEFAULT, "acme"], strict=True))


async def test_as_many_at_a_time_as_there_are_slots(queue, jobs):
    jobs.add("1", "2", "3")
    for id in jobs.by_id:
        await queue.publish(id)
    async with running(worker(queue, jobs, forever, slots=2)):
        await until(lambda: list(jobs.states().values()) == ["running", "running", "queued"])
        await asyncio.sleep(0.1)
        assert queue.ids == ["3"]


async def test_an_id_published_twice_is_worked_on_once(queue, jobs):
    jobs.add("1")
    done, go_on = [], asyncio.Event()

    async def wait(job: Job) -> None:
        done.append(job.id)
        await go_on.wait()

    async with running(worker(queue, jobs, wait, slots=2)):
        for _ in range(3):
            await queue.publish("1")
        await until(lambda: done and not queue.ids)
        go_on.set()
        await until(lambda: jobs.states() == {"1": "done"} and not queue.leased)
    assert done == ["1"]


async def test_nothing_to_do_is_acknowledged(queue, jobs, clock):
    jobs.add("over", "held", "1")
    jobs.change("over", state="done")
    jobs.change("held", state="running", owner="b", until=clock.now() + LEASE)
    for id in ("over", "held", "unknown", ""):
        await queue.publish(id)
    async with running(worker(queue, jobs)):
        await until(lambda: not queue.ids and not queue.leased)
    assert jobs.by_id["held"].owner == "b"
    assert queue.dead == {}


async def test_at_stop_the_work_is_given_back_for_another_to_take_at_once(queue, jobs):
    jobs.add("1")
    await queue.publish("1", Priority.LOW)
    async with running(worker(queue, jobs, forever)):
        await until(lambda: jobs.by_id["1"].state == "running")
    assert queue.ids == ["1"]
    assert queue.leased == []
    assert (jobs.by_id["1"].owner, jobs.by_id["1"].attempts) == ("", 0)
    async with running(worker(queue, jobs, name="b")):
        await until(lambda: jobs.by_id["1"].state == "done")


async def test_what_ends_as_it_is_stopped_is_done(queue, jobs):
    jobs.add("1")
    await queue.publish("1")

    async def stubborn(_: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

    async with running(worker(queue, jobs, stubborn)):
        await until(lambda: jobs.by_id["1"].state == "running")
    assert jobs.states() == {"1": "done"}
    assert queue.ids == queue.leased == []


@pytest.mark.parametrize("change", [{"state": "cancelled"}, {"owner": "b"}])
async def test_work_that_was_cancelled_or_taken_over_is_left(queue, jobs, change):
    jobs.add("1")
    await queue.publish("1")
    ended = asyncio.Event()

    async def work(_: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(worker(queue, jobs, work)):
        await until(lambda: jobs.by_id["1"].state == "running")
        jobs.change("1", **change)
        await asyncio.wait_for(ended.wait(), 5)
        await until(lambda: not queue.leased)
    assert queue.ids == []
    assert [getattr(jobs.by_id["1"], name) for name in change] == list(change.values())


async def test_work_that_is_left_and_breaks_as_it_ends_is_nobodys_error(queue, jobs):
    jobs.add("1")
    await queue.publish("1")
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))

    async def breaks(_: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise KeyError("it was deleted") from None

    async with running(worker(queue, jobs, breaks)):
        await until(lambda: jobs.by_id["1"].state == "running")
        jobs.change("1", state="cancelled")
        await until(lambda: not queue.leased)
    gc.collect()
    assert errors == []


async def test_the_hold_is_renewed_while_the_work_goes_on(queue, jobs, clock):
    jobs.add("1")
    await queue.publish("1")
    async with running(worker(queue, jobs, forever)):
        await until(lambda: jobs.by_id["1"].until is not None)
        for _ in range(5):
            clock.advance(LEASE / 2)
            await until(lambda: jobs.by_id["1"].until == clock.now() + LEASE)


async def test_what_the_platform_fails_is_tried_again_and_then_given_up(queue, jobs):
    jobs.add("1")
    await queue.publish("1")

    def fail(_: Job) -> None:
        raise Unavailable("the sandbox is away")

    async with running(worker(queue, jobs, fail, max_attempts=3)):
        for attempt in (1, 2):
            await until(lambda attempt=attempt: jobs.by_id["1"].attempts == attempt and not jobs.by_id["1"].owner)
            assert queue.leased == ["1"], "the message stays leased until its time is over"
            queue.expire()
        await until(lambda: jobs.by_id["1"].state == "failed")
        await until(lambda: queue.dead)
    assert jobs.by_id["1"].reason == "the sandbox is away (after 3 attempts)"
    assert queue.dead == {"1": jobs.by_id["1"].reason}
    assert queue.leased == []


async def test_any_other_error_is_final(queue, jobs):
    jobs.add("1", "2")
    for id in jobs.by_id:
        await queue.publish(id)

    def fail(job: Job) -> None:
        if job.id == "1":
            raise DataLoss("the weights are not whole")

    async with running(worker(queue, jobs, fail)):
        await until(lambda: jobs.states() == {"1": "failed", "2": "done"})
    assert jobs.by_id["1"].reason == "the weights are not whole"
    assert queue.dead == {"1": "the weights are not whole"}


async def test_a_bug_is_tried_again_and_then_given_up(queue, jobs):
    jobs.add("1", "2")
    for id in jobs.by_id:
        await queue.publish(id)

    def fail(job: Job) -> None:
        if job.id == "1":
            raise KeyError("x")

    async with running(worker(queue, jobs, fail, max_attempts=2)):
        await until(lambda: jobs.by_id["1"].attempts == 1 and not jobs.by_id["1"].owner)
        queue.expire()
        await until(lambda: jobs.states() == {"1": "failed", "2": "done"})
        await until(lambda: queue.dead)
    reason = "an internal error of the service (KeyError); its log has the trace (after 2 attempts)"
    assert jobs.by_id["1"].reason == reason
    assert queue.dead == {"1": reason}


async def test_work_that_kills_its_workers_is_given_up(queue, jobs, clock):
    jobs.add("1")
    jobs.change("1", state="running", owner="dead", until=clock.now(), attempts=5)
    clock.advance(timedelta(seconds=10))
    done = []
    async with running(worker(queue, jobs, lambda job: done.append(job))):
        await until(lambda: jobs.by_id["1"].state == "failed")
    assert jobs.by_id["1"].reason == "given up: 5 times a worker ended while it had this"
    assert done == []


async def test_what_is_given_out_often_is_no_dead_letter_while_the_store_has_it(queue, jobs):
    """As a run that has trained, and waits for the registry for as long as it takes."""
    jobs.add("1")
    await queue.publish("1")
    begun = []

    def wait(_: Job) -> None:
        begun.append(1)
        if len(begun) < 12:
            raise Unavailable("the registry is away")

    async with running(Worker(queue, LeasedWork(jobs, "a", wait), jobs.clock, leased=True, timing=FAST)):
        await until(lambda: jobs.states() == {"1": "done"} or queue.expire())
    assert len(begun) == 12
    assert queue.dead == {}


class Unreadable(JobWork):
    """ "2" has a row that makes no job."""

    async def claim(self, id: str) -> Job:
        if id == "2":
            raise ValueError("'x' is no state")
        return await super().claim(id)


async def test_what_cannot_be_read_is_set_aside_and_stays_there(queue, jobs, clock):
    jobs.add("1", "2", "3")
    for id in jobs.by_id:
        await queue.publish(id)
    clock.advance(timedelta(seconds=10))
    async with running(Worker(queue, Unreadable(jobs, "a", nothing), clock, timing=FAST)):
        await until(lambda: jobs.states() == {"1": "done", "2": "queued", "3": "done"})
        assert queue.dead == {}, "it may be read yet"
        await until(lambda: queue.dead or queue.expire())
        letters = dict(queue.dead)
        queue.dead.clear()
        await asyncio.sleep(5 * FAST.reconcile.total_seconds())
    assert letters == {"2": "5 times nobody could read it: 'x' is no state"}
    assert (queue.ids, queue.leased, queue.dead) == ([], [], {})


async def test_what_the_queue_has_lost_is_put_back(queue, jobs, clock):
    jobs.add("waits", "lost", "held", "over")
    jobs.change("held", state="running", owner="b", until=clock.now() + LEASE)
    jobs.change("over", state="done")
    clock.advance(timedelta(seconds=4))
    jobs.add("new")
    clock.advance(timedelta(seconds=4))
    await queue.publish("waits")
    assert await worker(queue, jobs).reconcile() == ["lost"]
    assert queue.ids == ["waits", "lost"]
    assert await worker(queue, jobs).reconcile() == []


async def test_a_flushed_queue_costs_nothing_while_the_store_holds(queue, jobs, clock):
    jobs.add("1", "2")
    for id in jobs.by_id:
        await queue.publish(id)
    go_on, begun = asyncio.Event(), []

    async def wait(job: Job) -> None:
        begun.append(job.id)
        await go_on.wait()

    async with running(worker(queue, jobs, wait)):
        await until(lambda: begun)
        queue.flush()
        clock.advance(timedelta(seconds=10))
        go_on.set()
        await until(lambda: set(jobs.states().values()) == {"done"})
    assert sorted(begun) == ["1", "2"]


async def test_who_loses_the_lease_has_lost_the_work_where_the_store_keeps_no_hold(queue, jobs):
    jobs.add("1")
    await queue.publish("1")
    ended = asyncio.Event()

    async def work(_: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(worker(queue, jobs, work, leased=True)):
        await until(lambda: queue.leased)
        queue.flush()
        await asyncio.wait_for(ended.wait(), 5)


async def test_outages_of_queue_and_store_are_survived(queue, jobs):
    jobs.add("1")
    queue.is_away = jobs.is_away = True
    await enqueue(queue, "1")
    async with running(worker(queue, jobs)):
        await asyncio.sleep(0.05)
        queue.is_away = False
        await queue.publish("1")
        await until(lambda: queue.leased)
        jobs.is_away = False
        queue.expire()
        await until(lambda: jobs.by_id["1"].state == "done")


async def test_what_was_in_hand_when_the_process_was_killed_is_taken_up_first(queue, jobs):
    jobs.add("old", "new")
    await queue.publish("old")
    queue.killed = [await queue.take(timedelta(0))]
    await queue.publish("new")
    done = []
    async with running(worker(queue, jobs, lambda job: done.append(job.id))):
        await until(lambda: len(done) == 2 and not queue.leased)
    assert done == ["old", "new"]


@pytest.mark.parametrize("fault", [DataLoss("odd"), KeyError("a bug")])
async def test_a_hold_that_cannot_be_renewed_now_ends_no_work(queue, jobs, fault):
    """Whatever the reason: the store refuses what is another's by the time the work ends."""
    jobs.add("1")
    await queue.publish("1")
    go_on = asyncio.Event()
    faults = [fault, fault]

    class Flawed(JobWork):
        async def renew(self, claim: Job) -> None:
            if not faults:
                go_on.set()
                return
            raise faults.pop()

    async def wait(_: Job) -> None:
        await go_on.wait()

    async with running(Worker(queue, Flawed(jobs, "a", wait), jobs.clock, timing=FAST)):
        await until(lambda: jobs.by_id["1"].state == "done")
    assert jobs.by_id["1"].attempts == 1
