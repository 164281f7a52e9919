"""A policy's engine, over scripted ones: it sleeps and wakes, and dies and comes again."""

import asyncio
from contextlib import aclosing

import pytest

from ratchet_kit.errors import (
    FailedPrecondition,
    Failure,
    Internal,
    InvalidArgument,
    NotFound,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from rollout_service.domain.policy import Policy, PolicyName, State

from ..memory import content_id
from ..world import BASE, REQUEST, P, World


class TestSleep:
    async def test_its_gpus_are_free_once_nothing_generates(self, world: World) -> None:
        await world.load(sleeps=True)
        world.engine.going.clear()
        before = asyncio.create_task(world.policies.generate(P, REQUEST))
        await asyncio.sleep(0.01)
        sleep = asyncio.create_task(world.policies.sleep(P))
        await asyncio.sleep(0.01)
        assert not world.engine.asleep
        world.engine.going.set()
        await before
        await sleep
        await world.policies.sleep(P)
        assert world.engine.asleep

    async def test_a_generation_wakes_it(self, world: World) -> None:
        await world.load(sleeps=True)
        await world.policies.sleep(P)
        await asyncio.gather(*(world.policies.generate(P, REQUEST) for _ in range(3)))
        assert not world.engine.asleep
        async with aclosing(world.policies.stream(P, REQUEST)) as pieces:
            assert [one async for one in pieces]

    @pytest.mark.parametrize("interrupts", [False, True])
    async def test_new_weights_wake_it(self, world: World, interrupts: bool) -> None:
        await world.load(sleeps=True)
        await world.policies.sleep(P)
        await world.update(b"new", interrupts=interrupts)
        assert not world.engine.asleep
        assert world.engine.loaded[-1].policy_id == content_id(b"new")

    async def test_one_that_died_asleep_comes_back_awake(self, world: World) -> None:
        await self.dead_asleep(world)
        with pytest.raises(Unavailable):
            await world.policies.generate(P, REQUEST)
        await self.again(world)
        await world.policies.generate(P, REQUEST)
        await world.policies.sleep(P)
        assert world.engine.asleep

    async def test_one_that_died_asleep_takes_no_gpu_until_somebody_needs_it(self, world: World) -> None:
        """A trainer has it: another engine would take the memory of its update."""
        await self.dead_asleep(world)
        await world.policies.sleep(P)
        assert world.policies.get(P).state is State.READY, "who waits for it would wait for ever otherwise"
        assert len(world.engines.started) == 1
        with pytest.raises(Unavailable):
            await world.update(b"new", base=BASE)
        assert world.folders.held == []
        assert (await self.again(world)).policy_id == BASE
        await world.update(b"new", base=BASE)
        assert world.engine.loaded[-1].policy_id == content_id(b"new")

    async def test_one_that_died_asleep_is_unloaded(self, world: World) -> None:
        await self.dead_asleep(world)
        await world.policies.unload(P)
        assert world.policies.names() == frozenset()

    @pytest.mark.parametrize("asleep", [False, True])
    async def test_one_that_cannot_turn_is_started_again(self, world: World, asleep: bool) -> None:
        """vLLM takes no requests once it began to sleep: they would wait for ever."""
        await world.load(sleeps=True)
        if asleep:
            await world.policies.sleep(P)
        stuck = world.engine
        stuck.turn_error = Internal("RuntimeError: no memory to pin")
        with pytest.raises(Unavailable, match="no memory to pin"):
            await (world.policies.generate(P, REQUEST) if asleep else world.policies.sleep(P))
        assert stuck.stopped
        await self.again(world)
        await world.policies.generate(P, REQUEST)

    async def dead_asleep(self, world: World) -> None:
        await world.load(sleeps=True)
        await world.policies.sleep(P)
        world.engine.die("killed")
        await asyncio.sleep(0.01)

    async def again(self, world: World) -> Policy:
        async with asyncio.timeout(2):
            while len(world.engines.started) < 2:
                await asyncio.sleep(0.001)
        return await world.until(State.READY)

    async def test_not_without_the_option_and_not_what_is_not_there(self, world: World) -> None:
        await world.load()
        with pytest.raises(FailedPrecondition, match=r"options\.sleeps"):
            await world.policies.sleep(P)
        with pytest.raises(NotFound):
            await world.policies.sleep(PolicyName("other"))


class TestDeath:
    async def test_the_engine_comes_back_with_the_last_weights(self, world: World) -> None:
        await world.load()
        await world.update(b"new")
        dead = world.engine
        dead.die("killed")
        await dead.died()
        await asyncio.sleep(0.01)
        policy = await world.until(State.READY)
        assert world.engine.loaded[0].policy_id == policy.policy_id == content_id(b"new")
        assert policy.weight_updates == 1
        assert world.meter.deaths == 1
        assert dead.stopped

    async def test_one_that_hangs_counts_as_dead_and_as_hung_and_the_node_says_so(self, world: World) -> None:
        await world.load()
        world.engine.die("vLLM hangs", hung=True)
        while world.policies.get(P).state is State.READY:
            await asyncio.sleep(0)
        assert world.policies.node().detail == "p is being started again: vLLM hangs"
        await world.until(State.READY)
        assert world.policies.node().detail == ""
        assert (world.meter.deaths, world.meter.hangs) == (1, 1)

    async def test_a_generation_under_way_is_unavailable(self, world: World) -> None:
        await world.load()
        world.engine.going.clear()
        task = asyncio.create_task(world.policies.generate(P, REQUEST))
        await asyncio.sleep(0.01)
        world.engine.die("killed")
        with pytest.raises(Unavailable):
            await task

    async def test_an_engine_that_keeps_dying_is_given_up(self, world: World) -> None:
        await world.load()
        for _ in range(4):
            await world.until(State.READY)
            world.engine.die("killed")
            await asyncio.sleep(0.02)
        policy = await world.until(State.FAILED)
        assert policy.failure == Failure("UNAVAILABLE", "killed; it died 4 times in a row")

    async def test_a_restart_that_can_never_succeed_is_not_tried_again(self, world: World) -> None:
        await world.load()
        world.engines.refusals.append(InvalidArgument("no kernel image for this GPU"))
        world.engine.die("killed")
        policy = await world.until(State.FAILED)
        assert policy.failure == Failure("INVALID_ARGUMENT", "no kernel image for this GPU")

    @pytest.mark.parametrize("kind", [FailedPrecondition, ResourceExhausted, Unavailable])
    async def test_a_restart_that_fails_is_tried_again(self, world: World, kind: type[RatchetError]) -> None:
        await world.load()
        world.engines.refusals.append(kind("no memory"))
        world.engine.die("killed")
        await asyncio.sleep(0.02)
        assert (await world.until(State.READY)).policy_id == BASE
