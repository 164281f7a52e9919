"""The worker on a real Redis: nothing is lost, nothing is measured twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import redis.asyncio

from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.evaluations import Evaluations
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, SuiteEntry
from eval_service.main import GROUP, STREAM, Service, provision
from eval_service.settings import Settings
from ratchet_kit.errors import Unavailable
from ratchet_kit.names import VersionRef
from ratchet_kit.queues import StreamQueue
from ratchet_kit.streams import Stream
from ratchet_kit.worker import Timing

from ..memory_pairs import MemoryPairStore

pytestmark = pytest.mark.integration

SPEC = EvaluationSpec(VersionRef("starter", 1), (SuiteEntry(ProblemSetRef("basics")),), samples_per_problem=2)
LEASE = timedelta(milliseconds=300)
SETTLED = timedelta(seconds=6)
"""After this long what is not on the queue counts as lost."""
TIMING = Timing(
    beat=timedelta(milliseconds=50),
    reconcile=timedelta(milliseconds=100),
    settle=timedelta(seconds=5),
    block=timedelta(milliseconds=100),
    pause=timedelta(milliseconds=50),
)
PORTS = {"client": 1, "one": 2, "two": 3}
"""A worker is named for its service's port."""


def service(world: Any, redis_url: str, name: str, slots: int = 1) -> AbstractAsyncContextManager[Service]:
    settings = Settings(
        port=PORTS[name],
        redis_url=redis_url,
        lease=LEASE,
        slots=slots,
    )
    return provision(
        settings,
        store=world.store,
        pairs=MemoryPairStore(),
        problems=world.problems,
        models=world.models,
        host=world.host,
        environments=lambda spec: world.environment,
        meter=world.meter,
        clock=world.clock,
        timing=TIMING,
        sleep=world.sleep,
    )


class Platform:
    """Services over one Redis and one store."""

    def __init__(self, world: Any, redis: redis.asyncio.Redis, redis_url: str, evaluations: Evaluations) -> None:
        self.world = world
        self.redis = redis
        self.redis_url = redis_url
        self.evaluations = evaluations
        self.created = 0
        self.queue = StreamQueue(Stream(redis, STREAM, GROUP, "test", lease=LEASE))

    @asynccontextmanager
    async def working(self, name: str = "one") -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Runs a service's worker; what it gives kills it, so that it can store nothing more."""
        stop = asyncio.Event()
        async with service(self.world, self.redis_url, name) as provisioned:

            async def work() -> None:
                await asyncio.gather(*(run(stop) for run in provisioned.background))

            task = asyncio.create_task(work())

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
        """Each draws samples of its own."""
        self.created += 1
        id: str = (await self.evaluations.create(replace(SPEC, seed=self.created), "")).evaluation.id
        return id

    def settle(self) -> None:
        """What is not on the queue now counts as lost."""
        self.world.clock.advance(SETTLED)

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

    async def until_unloaded(self) -> None:
        async with asyncio.timeout(5):
            while self.world.host.loaded:
                await asyncio.sleep(0.01)


@pytest.fixture
async def platform(world: Any, redis: redis.asyncio.Redis, redis_url: str) -> AsyncIterator[Platform]:
    async with service(world, redis_url, "client", slots=0) as provisioned:
        yield Platform(world, redis, redis_url, provisioned.evaluations)


async def test_what_is_created_is_measured(platform: Platform) -> None:
    async with platform.working():
        ids = [await platform.create() for _ in range(3)]
        for id in ids:
            evaluation = await platform.until(id, State.SUCCEEDED)
            assert evaluation.score.pass_at_k[0].estimate.value == 0.5
        await platform.until_drained()
    assert len(platform.world.host.completions) == 3 * 12
    assert platform.world.meter.states == ["succeeded"] * 3
    assert platform.world.host.loaded == set()


async def test_a_fault_that_stays_fails_it_and_says_why(platform: Platform) -> None:
    platform.world.environment.faults = [Unavailable("the sandbox is gone")] * 1000
    async with platform.working():
        evaluation = await platform.until(await platform.create(), State.FAILED)
        await platform.until_drained()
    assert evaluation.failure is not None
    assert evaluation.failure.code == "UNAVAILABLE"
    assert "the sandbox is gone" in evaluation.failure.message


async def test_a_bug_is_tried_again_and_the_worker_lives(platform: Platform) -> None:
    platform.world.environment.faults = [ZeroDivisionError("bug")]
    async with platform.working():
        first, second = await platform.create(), await platform.create()
        await platform.until(first, State.SUCCEEDED)
        await platform.until(second, State.SUCCEEDED)


async def test_a_bug_that_stays_fails_it_and_says_which(platform: Platform) -> None:
    platform.world.environment.faults = [ZeroDivisionError("bug")] * 1000
    async with platform.working():
        failed = await platform.until(await platform.create(), State.FAILED)
    assert failed.failure is not None
    assert failed.failure.code == "INTERNAL"
    assert "(ZeroDivisionError); its log has the trace (after " in failed.failure.message


async def test_after_flushall_nothing_is_lost(platform: Platform) -> None:
    ids = [await platform.create() for _ in range(3)]
    await platform.redis.flushall()
    platform.settle()
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
        platform.settle()
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
        platform.settle()
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
    for attempt in range(1, 6):
        async with platform.working("one") as kill, asyncio.timeout(15):
            while (await platform.world.store.get(id)).attempts < attempt:
                await asyncio.sleep(0.01)
            await kill()
    platform.settle()  # the stream gives a message up, too: then it is the store that remembers
    async with platform.working("one"):
        failure = (await platform.until(id, State.FAILED)).failure
    assert failure is not None
    assert "5 times a worker ended" in failure.message


async def test_stopped_it_gives_back_and_is_resumed(platform: Platform) -> None:
    world = platform.world
    world.host.hang.clear()
    async with platform.working("one"):
        id = await platform.create()
        await platform.until(id, State.RUNNING)
    given_back = await world.store.get(id)
    assert (given_back.hold.owner, given_back.attempts, world.host.loaded) == ("", 0, set())
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
        await platform.until_unloaded()
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
        await platform.until_unloaded()


async def test_two_workers_share_the_work(platform: Platform) -> None:
    async with platform.working("one"), platform.working("two"):
        ids = [await platform.create() for _ in range(6)]
        for id in ids:
            await platform.until(id, State.SUCCEEDED)
        await platform.until_drained()
    assert len(platform.world.host.completions) == 6 * 12
