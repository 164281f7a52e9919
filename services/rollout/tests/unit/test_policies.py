"""The rules of the service, over scripted engines."""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit.errors import (
    AlreadyExists,
    DataLoss,
    FailedPrecondition,
    Failure,
    InvalidArgument,
    NotFound,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_policies import FinishReason
from rollout_service.domain.policies import LoadPolicy
from rollout_service.domain.policy import PolicyName, State
from rollout_service.domain.ports import KeptPolicy, ModelFolder

from ..memory import content_id
from ..world import BASE, REQUEST, P, World


class TestUsage:
    async def test_engines_before_a_restart_count_and_so_do_all_tokens(self, world: World) -> None:
        await world.load()
        world.engine.cpu_time = timedelta(seconds=3)
        await world.policies.generate(P, REQUEST, None)
        async with aclosing(world.policies.stream(P, REQUEST, None)) as pieces:
            _ = [piece async for piece in pieces]
        world.engine.die("killed")
        async with asyncio.timeout(2):
            while len(world.engines.started) < 2:
                await asyncio.sleep(0.001)
        world.engine.cpu_time = timedelta(seconds=2)
        usage = world.policies.get(P).usage
        assert (usage.cpu_time, usage.gpu_time) == (timedelta(seconds=5), timedelta())
        assert usage.tokens == 2 * (3 + 4)
        assert (await world.policies.page(10, "")).items[0].usage.cpu_time == timedelta(seconds=5)


class TestLoad:
    async def test_returns_at_once_and_becomes_ready(self, world: World) -> None:
        assert (await world.policies.load(LoadPolicy("r", P, "/base"))).state is State.LOADING
        policy = await world.policies.settled(P)
        assert (policy.state, policy.policy_id) == (State.READY, BASE)

    async def test_is_idempotent_under_its_request_id(self, world: World) -> None:
        await world.load()
        await world.update(b"new")
        again = await world.policies.load(LoadPolicy("load-p-/base", P, "/base"))
        assert again.policy_id == content_id(b"new")
        assert len(world.engines.started) == 1

    async def test_the_same_model_for_another_request_is_shared_until_it_is_updated(self, world: World) -> None:
        await world.load()
        assert (await world.policies.load(LoadPolicy("r2", P, "/base"))).state is State.READY
        await world.update(b"new")
        with pytest.raises(AlreadyExists):
            await world.policies.load(LoadPolicy("r3", P, "/base"))

    async def test_refuses_a_request_id_that_was_used_for_another_request(self, world: World) -> None:
        await world.load()
        with pytest.raises(AlreadyExists, match="used before"):
            await world.policies.load(LoadPolicy("load-p-/base", PolicyName("other"), "/other"))

    async def test_refuses_a_name_that_holds_another_model(self, world: World) -> None:
        await world.load()
        with pytest.raises(AlreadyExists, match="unload it first"):
            await world.policies.load(LoadPolicy("r2", P, "/other"))

    async def test_refuses_more_than_its_capacity(self, world: World) -> None:
        await world.load(PolicyName("a"))
        await world.load(PolicyName("b"))
        with pytest.raises(ResourceExhausted) as refused:
            await world.load(PolicyName("c"))
        assert refused.value.retry_after is not None
        await world.policies.unload(PolicyName("a"))
        assert (await world.load(PolicyName("c"))).state is State.READY

    async def test_refuses_what_cannot_be_a_model(self, world: World) -> None:
        with pytest.raises(InvalidArgument):
            await world.policies.load(LoadPolicy("r", P, "/nothing"))

    async def test_a_policy_whose_engine_does_not_start_fails_and_can_be_replaced(self, world: World) -> None:
        world.engines.refusals.append(FailedPrecondition("no such architecture"))
        policy = await world.load()
        assert (policy.state, policy.failure) == (State.FAILED, Failure("FAILED_PRECONDITION", "no such architecture"))
        await world.policies.load(LoadPolicy("again", P, "/base"))
        assert (await world.policies.settled(P)).state is State.READY

    async def test_fails_rather_than_loading_for_ever_when_the_disk_does(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def keep(kept: KeptPolicy) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr(world.journal, "keep", keep)
        policy = await world.load()
        assert policy.state is State.FAILED
        assert world.engine.stopped

    @pytest.mark.parametrize("fault", [ResourceExhausted("no space is left"), Unavailable("the store is away")])
    async def test_weights_that_cannot_be_fetched_now_are_tried_again_for_a_while(
        self, world: World, monkeypatch: pytest.MonkeyPatch, fault: RatchetError
    ) -> None:
        fetch, faults = world.folders.fetch, [fault]

        async def fetch_later(source: str) -> ModelFolder:
            if faults:
                raise faults[0] if source == "/other" else faults.pop()
            return await fetch(source)

        monkeypatch.setattr(world.folders, "fetch", fetch_later)
        assert (await world.load(PolicyName("always"), "/other")).failure == Failure.of(fault)
        assert (await world.load()).state is State.READY

    async def test_fails_on_other_weights_than_expected(self, world: World) -> None:
        await world.policies.load(LoadPolicy("r", P, "/base", expected_policy_id=content_id(b"else")))
        policy = await world.policies.settled(P)
        assert policy.state is State.FAILED
        assert policy.failure is not None
        assert BASE in policy.failure.message


class TestGenerate:
    async def test_names_the_weights(self, world: World) -> None:
        await world.load()
        generation = await world.policies.generate(P, REQUEST, BASE)
        assert generation.policy_id == BASE
        assert len(generation.completions[0].token_ids) == 4
        assert world.meter.tokens == 4

    async def test_refuses_other_weights_than_expected(self, world: World) -> None:
        await world.load()
        with pytest.raises(FailedPrecondition, match="not the expected"):
            await world.policies.generate(P, REQUEST, content_id(b"else"))

    async def test_an_unknown_policy_is_not_found(self, world: World) -> None:
        with pytest.raises(NotFound):
            await world.policies.generate(P, REQUEST)

    async def test_streams_pieces(self, world: World) -> None:
        await world.load()
        pieces = [piece async for piece in world.policies.stream(P, REQUEST)]
        assert [len(output.completions[0].token_ids) for output, _ in pieces] == [1, 1, 1, 1]
        assert {policy_id for _, policy_id in pieces} == {BASE}
        assert world.meter.tokens == 4

    async def test_a_caller_that_leaves_frees_the_engine(self, world: World) -> None:
        await world.load()
        world.engine.going.clear()
        task = asyncio.create_task(world.policies.generate(P, REQUEST))
        await asyncio.sleep(0.01)
        assert world.engine.generating == 1
        task.cancel()
        await asyncio.wait([task])
        assert world.engine.generating == 0
        await world.update(b"new")  # no lock is held


class TestUpdate:
    async def test_replaces_the_weights_and_drops_the_files_of_the_old(self, world: World) -> None:
        await world.load()
        await world.update(b"one")
        await world.update(b"two")
        policy = world.policies.get(P)
        assert (policy.policy_id, policy.weight_updates) == (content_id(b"two"), 2)
        assert [folder.policy_id for folder in world.folders.held] == [content_id(b"two")]
        assert world.meter.updates == 2

    async def test_keeps_the_old_weights_when_others_than_the_announced_come(self, world: World) -> None:
        await world.load()
        with pytest.raises(DataLoss, match="the old weights are still served"):
            await world.update(b"new", announced=content_id(b"else"))
        assert (await world.policies.generate(P, REQUEST)).policy_id == BASE
        assert world.folders.held == []

    async def test_takes_changes_of_the_weights_that_it_has_and_of_no_others(self, world: World) -> None:
        await world.load()
        await world.update(b"one", base=BASE)
        with pytest.raises(FailedPrecondition, match="send them whole"):
            await world.update(b"two", base=BASE)
        assert world.policies.get(P).policy_id == content_id(b"one")
        await world.update(b"two", base=content_id(b"one"))

    async def test_changes_are_prepared_while_it_generates(self, world: World) -> None:
        await world.load()
        world.engine.going.clear()
        before = asyncio.create_task(world.policies.generate(P, REQUEST))
        await asyncio.sleep(0.01)
        update = asyncio.create_task(world.update(b"new", base=BASE))
        while world.engine.prepared is None:
            await asyncio.sleep(0)
        assert (world.engine.prepared.policy_id, world.engine.generating) == (content_id(b"new"), 1)
        world.engine.going.set()
        await update
        assert (await before).policy_id == BASE
        assert (await world.policies.generate(P, REQUEST)).policy_id == content_id(b"new")

    async def test_an_engine_that_dies_while_it_prepares_comes_back_with_the_old_weights(self, world: World) -> None:
        await world.load()
        world.engine.die("killed")
        with pytest.raises(Unavailable):
            await world.update(b"new", base=BASE)
        assert world.folders.held == []
        assert (await world.until(State.READY)).policy_id == BASE
        await world.update(b"new", base=BASE)

    async def test_serves_nothing_once_the_engine_does_not_compute_with_the_new_weights(self, world: World) -> None:
        await world.load()
        world.engine.accepts_weights = False
        with pytest.raises(DataLoss):
            await world.update(b"new")
        assert world.policies.get(P).state is State.FAILED
        assert world.engine.stopped
        with pytest.raises(FailedPrecondition):
            await world.policies.generate(P, REQUEST)

    async def test_waits_for_generations_and_holds_new_ones(self, world: World) -> None:
        await world.load()
        world.engine.going.clear()
        before = asyncio.create_task(world.policies.generate(P, REQUEST))
        await asyncio.sleep(0.01)
        update = asyncio.create_task(world.update(b"new"))
        await asyncio.sleep(0.01)
        after = asyncio.create_task(world.policies.generate(P, REQUEST))
        await asyncio.sleep(0.01)
        assert world.engine.generating == 1
        world.engine.going.set()
        await update
        assert (await before).policy_id == BASE
        assert (await after).policy_id == content_id(b"new")

    async def test_that_interrupts_waits_for_no_generation(self, world: World) -> None:
        await world.load()
        world.engine.going.clear()
        before = [asyncio.create_task(world.policies.generate(P, REQUEST)) for _ in range(3)]
        await asyncio.sleep(0.01)
        await world.update(b"new", interrupts=True)
        for generation in await asyncio.gather(*before):
            assert generation.policy_id == BASE
            assert [one.finish_reason for one in generation.completions] == [FinishReason.ABORTED]
        world.engine.going.set()
        after = await world.policies.generate(P, REQUEST)
        assert after.policy_id == content_id(b"new")
        assert [one.finish_reason for one in after.completions] == [FinishReason.LENGTH]

    async def test_is_finished_although_the_caller_left(self, world: World) -> None:
        await world.load()
        world.engine.going.clear()
        before = asyncio.create_task(world.policies.generate(P, REQUEST))
        await asyncio.sleep(0.01)
        update = asyncio.create_task(world.update(b"new"))
        await asyncio.sleep(0.01)
        update.cancel()
        world.engine.going.set()
        await before
        await asyncio.sleep(0.01)
        assert world.policies.get(P).policy_id == content_id(b"new")
        assert (await world.policies.generate(P, REQUEST)).policy_id == content_id(b"new")


class TestUnload:
    async def test_leaves_nothing(self, world: World) -> None:
        await world.load()
        await world.update(b"new")
        await world.policies.unload(P)
        assert world.engine.stopped
        assert world.folders.held == []
        assert world.meter.gone == [P]
        with pytest.raises(NotFound):
            world.policies.get(P)

    async def test_an_unknown_policy_is_not_found(self, world: World) -> None:
        with pytest.raises(NotFound):
            await world.policies.unload(P)

    async def test_while_loading(self, world: World) -> None:
        await world.policies.load(LoadPolicy("r", P, "/base"))
        await world.policies.unload(P)
        with pytest.raises(NotFound):
            world.policies.get(P)


class TestRecovery:
    async def test_another_service_serves_the_same_weights(self, world: World) -> None:
        await world.load()
        await world.update(b"lost")
        await world.update(b"new")
        world.folders.held.append(ModelFolder(Path("received-before"), content_id(b""), 0))
        async with world.service() as recovered:
            assert recovered.get(P).state is State.LOADING
            assert recovered.get(P).restart_reason == "the service was killed"
            policy = await recovered.settled(P)
            assert (policy.state, policy.weight_updates) == (State.READY, 2)
            assert (await recovered.generate(P, REQUEST)).policy_id == content_id(b"new")
            assert [folder.policy_id for folder in world.folders.held] == [content_id(b"new")]

    async def test_one_that_may_have_slept_takes_no_gpu_until_somebody_needs_it(self, world: World) -> None:
        await world.load(sleeps=True)
        await world.update(b"new")
        await world.policies.sleep(P)
        async with world.service() as recovered:
            policy = await recovered.settled(P)
            assert (policy.state, policy.policy_id) == (State.READY, content_id(b"new"))
            await recovered.sleep(P)
            assert len(world.engines.started) == 1
            with pytest.raises(Unavailable):
                await recovered.generate(P, REQUEST)
            async with asyncio.timeout(2):
                while len(world.engines.started) < 2 or recovered.get(P).state is not State.READY:
                    await asyncio.sleep(0.001)
            assert (await recovered.generate(P, REQUEST)).policy_id == content_id(b"new")

    async def test_a_failed_or_unloaded_policy_is_not_recovered(self, world: World) -> None:
        await world.load()
        world.engine.accepts_weights = False
        with pytest.raises(DataLoss):
            await world.update(b"new")
        other = PolicyName("other")
        await world.load(other)
        await world.policies.unload(other)
        assert await world.journal.kept() == []

    async def test_weights_that_have_changed_are_not_served(self, world: World) -> None:
        await world.load()
        world.folders.models["/base"] = content_id(b"changed")
        async with world.service() as recovered:
            policy = await recovered.settled(P)
            assert policy.state is State.FAILED
            assert policy.failure is not None
            assert "have the hash" in policy.failure.message
