"""The worker on a real Redis: nothing is lost, nothing is measured twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import redis.asyncio

from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.evaluations import Evaluations
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, VersionRef
from eval_service.worker import StreamQueue, Timing, Worker
from ratchet_kit.errors import Unavailable
from ratchet_kit.streams import Stream

pytestmark = pytest.mark.integration

SPEC = EvaluationSpec(VersionRef("starter@1"), ProblemSetRef("basics"), samples_per_problem=2)
TIMING = Timing(lease=timedelta(seconds=30), beat=timedelta(milliseconds=50), reconcile=timedelta(milliseconds=100))


class Platform:
    """Workers over one Redis and one store."""

    def __init__(self, world: Any, redis: redis.asyncio.Redis) -> None:
        self.world = world
        self.redis = redis
        self.queue = self.stream_queue("client")
        self.evaluations = Evaluations(
            world.store, self.queue, world.problems, world.evaluations._models, world.clock, timedelta(milliseconds=10)
        )

    def stream(self, name: str) -> Stream:
        return Stream(self.redis, "eval.evaluations", "eval-workers", name, lease=timedelta(milliseconds=300))

    def stream_queue(self, name: str) -> StreamQueue:
        return StreamQueue(self.stream(name))

    def worker(self, name: str, **options: Any) -> Worker:
        world, stream = self.world, self.stream(name)
        return Worker(
            name,
            stream,
            StreamQueue(stream),
            world.store,
            world.host,
            world.measurer,
            world.meter,
            world.clock,
            timing=TIMING,
            **options,
        )

    @asynccontextmanager
    async def working(self, name: str = "one", **options: Any) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Runs a worker; what it gives kills it, so that it can store nothing more."""
        stop = asyncio.Event()
        task = asyncio.create_task(self.worker(name, **options).run(stop))

        async def kill() -> None:
            task.cancel()
            await asyncio.wait({task}, timeout=10)
            assert task.done(), "a cancellation was lost"

        try:
            yield kill
        finally:
            stop.set()
            await asyncio.wait({task}, timeout=10)
            if not task.cancelled():
                task.result()

    async def create(self) -> str:
        id: str = (await self.evaluations.create(SPEC, "")).evaluation.id
        return id

    async def until(self, id: str, state: State, seconds: float = 15) -> Evaluation:
        async with asyncio.timeout(seconds):
            while True:
                evaluation: Evaluation = await self.world.store.get(id)
                if evaluation.state is state:
                    return evaluation
                await asyncio.sleep(0.01)

    async def until_drained(self) -> None:
        async with asyncio.timeout(15):
            while await self.queue.depth():
                await asyncio.sleep(0.01)


@pytest.fixture
def platform(world: Any, redis: redis.asyncio.Redis) -> Platform:
    return Platform(world, redis)


async def test_what_is_created_is_measured(platform: Platform) -> None:
    async with platform.working():
        ids = [await platform.create() for _ in range(3)]
        for id in ids:
            evaluation = await platform.until(id, State.SUCCEEDED)
            assert evaluation.pass_at_k[0].estimate.value == 0.5
        await platform.until_drained()
    assert len(platform.world.host.completions) == 3 * 12
    assert platform.world.meter.states == ["SUCCEEDED"] * 3
    assert platform.world.host.loaded == set()


async def test_a_fault_that_stays_fails_it_and_says_why(platform: Platform) -> None:
    platform.world.grading.faults = [Unavailable("the sandbox is gone")] * 1000
    async with platform.working():
        evaluation = await platform.until(await platform.create(), State.FAILED)
        await platform.until_drained()
    assert "the sandbox is gone" in evaluation.error


async def test_a_bug_fails_it_and_the_worker_lives(platform: Platform) -> None:
    platform.world.grading.faults = [ZeroDivisionError("bug")]
    async with platform.working():
        first, second = await platform.create(), await platform.create()
        assert "internal error" in (await platform.until(first, State.FAILED)).error
        await platform.until(second, State.SUCCEEDED)


async def test_after_flushall_nothing_is_lost(platform: Platform) -> None:
    ids = [await platform.create() for _ in range(3)]
    await platform.redis.flushall()
    async with platform.working():
        for id in ids:
            await platform.until(id, State.SUCCEEDED)
    assert len(platform.world.host.completions) == 3 * 12


async def test_flushall_under_way_disturbs_nothing(platform: Platform) -> None:
    platform.world.host.hang.clear()
    async with platform.working():
        first, second = await platform.create(), await platform.create()
        await platform.until(first, State.RUNNING)
        await asyncio.sleep(0.1)
        await platform.redis.flushall()
        await asyncio.sleep(0.3)
        platform.world.host.hang.set()
        for id in (first, second):
            assert (await platform.until(id, State.SUCCEEDED)).attempts == 1
    assert len(platform.world.host.completions) == 2 * 12


async def test_an_evaluation_of_a_killed_worker_is_resumed(platform: Platform) -> None:
    world = platform.world
    world.host.hang.clear()
    world.host.hang_after = 5
    async with platform.working("one") as kill:
        id = await platform.create()
        async with asyncio.timeout(15):
            while len(await world.store.sample_keys(id)) < 5:
                await asyncio.sleep(0.01)
        await kill()
    drawn, before = len(await world.store.sample_keys(id)), len(world.host.completions)
    assert 5 <= drawn < 12
    world.host.hang.set()
    async with platform.working("two"):
        await asyncio.sleep(0.5)
        assert (await world.store.get(id)).state is State.RUNNING, "its worker may still live"
        world.clock.advance(TIMING.lease)
        evaluation = await platform.until(id, State.SUCCEEDED)
    assert evaluation.attempts == 2
    assert len(world.host.completions) - before == 12 - drawn


async def test_a_worker_restarted_under_its_name_goes_on_at_once(platform: Platform) -> None:
    platform.world.host.hang.clear()
    async with platform.working("one") as kill:
        id = await platform.create()
        await platform.until(id, State.RUNNING)
        await kill()
    platform.world.host.hang.set()
    async with platform.working("one"):
        assert (await platform.until(id, State.SUCCEEDED, seconds=3)).attempts == 2


async def test_what_kills_its_workers_is_given_up(platform: Platform) -> None:
    platform.world.host.hang.clear()
    id = await platform.create()
    for _ in range(2):
        async with platform.working("one", max_attempts=2) as kill:
            await platform.until(id, State.RUNNING)
            await asyncio.sleep(0.1)
            await kill()
    async with platform.working("one", max_attempts=2):
        assert "2 workers have died" in (await platform.until(id, State.FAILED)).error


async def test_told_to_stop_it_gives_back_and_is_resumed(platform: Platform) -> None:
    world = platform.world
    world.host.hang.clear()
    async with platform.working("one"):
        id = await platform.create()
        await platform.until(id, State.RUNNING)
    given_back = await world.store.get(id)
    assert (given_back.hold, given_back.attempts, world.host.loaded) == (None, 0, set())
    world.host.hang.set()
    async with platform.working("two"):
        await platform.until(id, State.SUCCEEDED)


async def test_cancel_stops_the_work(platform: Platform) -> None:
    world = platform.world
    world.host.hang.clear()
    async with platform.working():
        id = await platform.create()
        await platform.until(id, State.RUNNING)
        await platform.evaluations.cancel(id)
        await platform.until_drained()
        assert world.host.loaded == set()
        assert (await world.store.get(id)).state is State.CANCELLED


async def test_a_cancelled_one_is_never_started(platform: Platform) -> None:
    id = await platform.create()
    await platform.evaluations.cancel(id)
    async with platform.working():
        await platform.until_drained()
    assert platform.world.host.completions == []


async def test_policies_of_ended_evaluations_are_unloaded(platform: Platform) -> None:
    ended = await platform.create()
    await platform.evaluations.cancel(ended)
    platform.world.host.loaded |= {ended, "eval_of_another_time"}
    async with platform.working():
        async with asyncio.timeout(5):
            while platform.world.host.loaded:
                await asyncio.sleep(0.01)


async def test_two_workers_share_the_work(platform: Platform) -> None:
    async with platform.working("one"), platform.working("two"):
        ids = [await platform.create() for _ in range(6)]
        for id in ids:
            await platform.until(id, State.SUCCEEDED)
        await platform.until_drained()
    assert len(platform.world.host.completions) == 6 * 12
