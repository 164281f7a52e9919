"""Where policies go: GPUs, places kept for a purpose, drained nodes."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from ratchet_kit.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from ratchet_policies import NodeState, PolicyState, Purpose
from rollout_service.domain.policies import LoadPolicy
from rollout_service.domain.policy import EngineOptions, PolicyName, State

from ..world import BASE, REQUEST, P, World


class TestGpus:
    @pytest.fixture
    async def world(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
        world = World(capacity=3, device="cuda")
        async with world.service() as world.policies:
            yield world

    async def test_each_policy_is_placed_where_the_fewest_are(self, world: World) -> None:
        for name in ("a", "b", "c"):
            await world.load(PolicyName(name))
        assert world.engines.devices == [("4",), ("5",), ("4",)]

    async def test_the_use_of_an_engines_gpus_adds_up_and_is_kept_when_it_is_restarted(self, world: World) -> None:
        world.gpu_use = {"4": 0.25, "5": 1.0}
        await world.load()
        async with asyncio.timeout(30):
            while not (usage := world.policies.get(P).usage).gpu_watched_time:
                await asyncio.sleep(0.01)
        assert usage.gpu_busy_time == usage.gpu_watched_time / 4
        world.gpu_use = {}
        world.engine.die("killed")
        async with asyncio.timeout(10):
            while len(world.engines.started) < 2:
                await asyncio.sleep(0.001)
        after = world.policies.get(P).usage
        assert after.gpu_watched_time >= usage.gpu_watched_time
        assert after.gpu_busy_time == after.gpu_watched_time / 4

    async def test_a_gpu_is_free_again_when_its_policy_is_gone_or_has_failed(self, world: World) -> None:
        await world.load(PolicyName("a"))
        world.engines.refusals = [FailedPrecondition("no room for the KV cache")]
        assert (await world.load(PolicyName("b"))).state is State.FAILED
        await world.load(PolicyName("c"))
        await world.policies.unload(PolicyName("a"))
        await world.load(PolicyName("d"))
        assert world.engines.devices == [("4",), ("5",), ("4",)]

    async def test_an_engine_that_died_comes_back_where_it_was(self, world: World) -> None:
        await world.load(PolicyName("a"))
        await world.load()
        world.engine.die("killed")
        async with asyncio.timeout(2):
            while len(world.engines.started) < 3:
                await asyncio.sleep(0.001)
        assert world.engines.devices == [("4",), ("5",), ("5",)]

    async def test_more_than_there_are_is_refused(self, world: World) -> None:
        with pytest.raises(InvalidArgument, match="cannot be loaded"):
            await world.policies.load(LoadPolicy("r", P, "/base", EngineOptions(tensor_parallel_size=3)))

    async def test_what_was_loaded_is_recovered_on_the_gpus_that_are_left(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await world.policies.load(LoadPolicy("r", P, "/base", EngineOptions(tensor_parallel_size=2)))
        await world.policies.settled(P)
        await world.load(PolicyName("one"))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
        async with world.service() as recovered:
            assert (await recovered.settled(PolicyName("one"))).devices == ("7",)
            with pytest.raises(NotFound):
                recovered.get(P)


class TestRoom:
    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        world = World(capacity=4)
        async with world.service() as world.policies:
            yield world

    async def put(self, world: World, name: str, purpose: Purpose = Purpose.SERVING) -> None:
        await world.policies.load(LoadPolicy(f"load-{name}", PolicyName(name), "/base", purpose=purpose))
        await world.policies.settled(PolicyName(name))

    async def test_no_purpose_takes_the_place_of_another(self, world: World) -> None:
        for name in ("a", "b"):
            await self.put(world, name)
        world.clock.advance(timedelta(seconds=1))
        with pytest.raises(ResourceExhausted, match="kept for purposes other than serving"):
            await self.put(world, "c")
        await self.put(world, "run", Purpose.TRAINING)
        await self.put(world, "eval", Purpose.EVALUATION)
        with pytest.raises(ResourceExhausted, match="capacity"):
            await self.put(world, "run2", Purpose.TRAINING)
        assert world.policies.names() == {"a", "b", "run", "eval"}
        assert world.meter.evictions == []

    async def test_what_is_served_and_idle_for_longest_makes_room_for_what_is_served(self, world: World) -> None:
        await self.put(world, "run", Purpose.TRAINING)
        for name in ("a", "b"):
            await self.put(world, name)
            world.clock.advance(timedelta(minutes=2))
        await world.policies.generate(PolicyName("a"), REQUEST)
        await self.put(world, "c")
        assert world.policies.names() == {"run", "a", "c"}
        assert world.meter.evictions == ["b"]

    async def test_what_is_said_to_be_in_use_or_generates_stays(self, world: World) -> None:
        for name in ("a", "b"):
            await self.put(world, name)
        engine = world.engines.started[0]
        engine.going.clear()
        running = asyncio.create_task(world.policies.generate(PolicyName("a"), REQUEST))
        while not engine.generating:
            await asyncio.sleep(0.001)
        world.clock.advance(timedelta(minutes=2))
        await world.policies.load(LoadPolicy("again", PolicyName("b"), "/base"))
        with pytest.raises(ResourceExhausted):
            await self.put(world, "c")
        engine.going.set()
        await running


class TestDrain:
    async def test_what_is_under_way_ends_and_nothing_new_is_taken(self, world: World) -> None:
        await world.load()
        world.engine.going.clear()
        running = asyncio.create_task(world.policies.generate(P, REQUEST))
        while not world.engine.generating:
            await asyncio.sleep(0.001)
        world.policies.drain(True)
        assert (world.policies.node().state, world.policies.node().sequences) == (NodeState.DRAINING, 1)
        with pytest.raises(Unavailable, match="drained"):
            await world.policies.generate(P, REQUEST)
        with pytest.raises(Unavailable, match="drained"):
            await anext(world.policies.stream(P, REQUEST))
        with pytest.raises(Unavailable, match="drained"):
            await world.load(PolicyName("q"))
        with pytest.raises(Unavailable, match="drained"):
            await world.update(b"new")
        world.engine.going.set()
        assert (await running).policy_id == BASE
        assert world.policies.node().sequences == world.meter.sequences == 0

    async def test_it_goes_back_to_work(self, world: World) -> None:
        await world.load()
        world.policies.drain(True)
        world.policies.drain(False)
        assert not world.meter.draining
        await world.policies.generate(P, REQUEST)
        [engine] = world.policies.node().engines
        assert (engine.policy, engine.state, engine.policy_id) == (P, PolicyState.READY, BASE)


async def test_pages_are_by_name() -> None:
    world = World(capacity=5)
    async with world.service() as world.policies:
        for name in ("c", "a", "b"):
            await world.load(PolicyName(name))
        first = await world.policies.page(2, "")
        second = await world.policies.page(2, first.next_page_token)
    assert [policy.name for policy in first.items] == ["a", "b"]
    assert [policy.name for policy in second.items] == ["c"]
    assert second.next_page_token == ""
