import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss, FailedPrecondition, NotFound
from ratchet_policies import PolicySpec, Purpose, Sampling
from ratchet_policies.fleet import Fleet
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.job.policy.policy import RunPolicy, rollouts
from trainer_service.job.policy.stream_transport import CHUNK_BYTES, StreamTransport
from trainer_service.job.policy.transport import Weights

from .rollouts import Rollouts, served

NAME = "run-run_1"
SMALL = policy_id.Tensor("a", "F32", (2,), struct.pack("<2f", 1.0, 2.0))
LARGE = policy_id.Tensor("b", "F32", (3 * CHUNK_BYTES // 8,), bytes(3 * CHUNK_BYTES // 2))


@pytest.fixture
def service() -> Rollouts:
    return Rollouts()


@pytest.fixture
async def target(service: Rollouts) -> AsyncIterator[str]:
    async with served(service) as target:
        yield target


@pytest.fixture
async def policy(target: str) -> AsyncIterator[RunPolicy]:
    spec = PolicySpec(NAME, "/models/starter", dtype="float32", max_model_len=160)
    async with Fleet.of(target) as engine:
        yield RunPolicy(engine, StreamTransport(engine), spec, patience=timedelta(seconds=5), at_once=2)


async def test_a_policy_is_loaded_once(policy: RunPolicy, service: Rollouts):
    await policy.ensure_loaded()
    await policy.ensure_loaded()
    assert service.loads == 1


async def test_a_failed_policy_is_loaded_again(policy: RunPolicy, service: Rollouts):
    service.fails = 1
    await policy.ensure_loaded()
    assert service.loads == 2


async def test_a_policy_that_fails_again_says_why(policy: RunPolicy, service: Rollouts):
    service.fails = 5
    with pytest.raises(FailedPrecondition, match=r"could not load /models/starter: no memory"):
        await policy.ensure_loaded()


async def test_weights_arrive_whole_under_their_id(policy: RunPolicy, service: Rollouts):
    await policy.ensure_loaded()
    sync = await policy.push(Weights.of([SMALL, LARGE]), step=3)
    assert sync.policy_id == policy_id.compute([LARGE, SMALL])
    assert sync.sent_bytes == len(SMALL.data) + len(LARGE.data)
    assert await policy.loaded_weights() == sync.policy_id


async def test_it_sleeps_and_one_that_is_gone_needs_not(policy: RunPolicy, service: Rollouts):
    await policy.sleep()
    await policy.ensure_loaded()
    await policy.sleep()
    assert service.sleeps == [NAME]


async def test_one_that_failed_needs_no_sleep_and_one_that_cannot_is_told(policy: RunPolicy, service: Rollouts):
    await policy.ensure_loaded()
    assert service.policy is not None
    service.policy.state = rollout_pb2.Policy.STATE_FAILED
    await policy.sleep()
    service.policy.state, service.stays_awake = rollout_pb2.Policy.STATE_READY, True
    with pytest.raises(FailedPrecondition):
        await policy.sleep()


def bfloat16(name: str, data: bytes) -> policy_id.Tensor:
    return policy_id.Tensor(name, "BF16", (len(data) // 2,), data)


BEFORE = Weights.of([bfloat16("a", bytes(CHUNK_BYTES)), bfloat16("b", bytes(1000)), bfloat16("c", bytes(8))])
AFTER = Weights.of(
    [
        bfloat16("a", b"\1" + bytes(CHUNK_BYTES - 1)),
        bfloat16("b", bytes(1000)),
        bfloat16("c", bytes(range(8))),
    ]
)


async def test_what_changed_is_all_that_is_sent(policy: RunPolicy, service: Rollouts):
    await policy.push(BEFORE, step=1)
    sync = await policy.push(AFTER, step=2, base=BEFORE)
    assert sync.policy_id == AFTER.policy_id
    assert sync.sent_bytes < AFTER.size_bytes / 100
    assert {name: tensor.data for name, tensor in service.tensors.items()} == {
        name: tensor.data for name, tensor in AFTER.tensors.items()
    }
    assert (await policy.push(AFTER, step=3, base=AFTER)).sent_bytes == 0
    assert service.updates == 3


@pytest.mark.parametrize("why", ["lost", "other", "damaged"])
async def test_where_changes_do_not_serve_all_is_sent(policy: RunPolicy, service: Rollouts, why: str):
    await policy.push(BEFORE, step=1)
    if why == "lost":
        await policy.unload()
    elif why == "other":
        await policy.push(Weights.of([SMALL]), step=1)
    service.is_damaged = why == "damaged"
    sync = await policy.push(AFTER, step=2, base=BEFORE)
    assert (sync.policy_id, sync.sent_bytes) == (AFTER.policy_id, AFTER.size_bytes)
    assert await policy.loaded_weights() == AFTER.policy_id


async def test_weights_bring_a_lost_policy_back(policy: RunPolicy, service: Rollouts):
    sync = await policy.push(Weights.of([SMALL]), step=1)
    assert service.loads == 1
    assert await policy.loaded_weights() == sync.policy_id


async def test_a_run_goes_on_at_another_node():
    services = (Rollouts(), Rollouts())
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        stacks = (first, second)
        targets = [await stack.enter_async_context(served(one)) for stack, one in zip(stacks, services, strict=True)]
        async with Fleet.of(",".join(targets)) as engine:
            policy = RunPolicy(
                engine, StreamTransport(engine), PolicySpec(NAME, "/models/starter"), patience=timedelta(seconds=30)
            )
            sync = await policy.push(Weights.of([SMALL]), step=1)
            [index] = [number for number, one in enumerate(services) if one.policy is not None]
            await stacks[index].aclose()
            with pytest.raises(NotFound):
                await policy.generate([1, 2], Sampling(), sync.policy_id)
            assert (await policy.push(Weights.of([SMALL]), step=1)).policy_id == sync.policy_id
            assert (await policy.generate([1, 2], Sampling(), sync.policy_id)).policy_id == sync.policy_id
    assert [one.loads for one in services] == [1, 1]


@asynccontextmanager
async def on_two_nodes() -> AsyncIterator[tuple[RunPolicy, list[Rollouts], list[AsyncExitStack]]]:
    """A run of two engines, both with the weights BEFORE. Closing a node's stack ends it."""
    services = [Rollouts(), Rollouts()]
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        stacks = [first, second]
        targets = [await stack.enter_async_context(served(one)) for stack, one in zip(stacks, services, strict=True)]
        spec = PolicySpec(NAME, "/models/starter", purpose=Purpose.TRAINING)
        async with Fleet.of(",".join(targets)) as engine:
            policy = RunPolicy(engine, StreamTransport(engine), spec, timedelta(seconds=30), engines=2)
            await until(lambda: all(node.free for node in engine.nodes()))
            await until(lambda: services[0].policy is not None and services[1].policy is not None, policy.ensure_loaded)
            sync = await policy.push(BEFORE, step=0)
            assert (sync.policy_id, sync.sent_bytes) == (BEFORE.policy_id, 2 * BEFORE.size_bytes)
            yield policy, services, stacks


async def test_weights_go_to_each_engine_of_a_run():
    async with on_two_nodes() as (policy, services, _):
        sync = await policy.push(AFTER, step=1, base=BEFORE)
        assert sync.sent_bytes < AFTER.size_bytes / 50
        assert {policy_id.compute(one.tensors.values()) for one in services} == {AFTER.policy_id}


async def test_a_lost_engine_costs_a_run_its_prompts_alone():
    async with on_two_nodes() as (policy, services, stacks):
        prompts = [policy.generate([number], Sampling(), BEFORE.policy_id) for number in range(16)]
        waiting = asyncio.gather(*prompts)
        await until(lambda: any(one.generating for one in services))
        index = next(number for number, one in enumerate(services) if one.generating)
        await stacks[index].aclose()
        assert {one.policy_id for one in await waiting} == {BEFORE.policy_id}
        assert (await policy.push(AFTER, step=1, base=BEFORE)).policy_id == AFTER.policy_id
        assert (await policy.generate([1], Sampling(), AFTER.policy_id)).policy_id == AFTER.policy_id


async def test_an_engine_that_lost_the_policy_gets_it_again_and_all_of_the_next_weights():
    async with on_two_nodes() as (policy, services, _):
        services[1].policy = None
        assert (await policy.push(AFTER, step=1, base=BEFORE)).sent_bytes < AFTER.size_bytes / 100
        await until(lambda: services[1].policy is not None, policy.ensure_loaded)
        sync = await policy.push(BEFORE, step=2, base=AFTER)
        assert sync.sent_bytes > BEFORE.size_bytes
        assert {policy_id.compute(one.tensors.values()) for one in services} == {BEFORE.policy_id}


async def test_one_engine_of_several_with_other_weights_than_were_sent_is_refused():
    async with on_two_nodes() as (policy, services, _):
        services[1].lies = True
        with pytest.raises(DataLoss, match="sha256:other"):
            await policy.push(AFTER, step=1)


async def until(holds: Callable[[], bool], meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
    async with asyncio.timeout(30):
        while not holds():
            if meanwhile:
                await meanwhile()
            await asyncio.sleep(0.02)


async def test_an_engine_with_other_weights_than_were_sent_is_refused(policy: RunPolicy, service: Rollouts):
    await policy.ensure_loaded()
    service.lies = True
    with pytest.raises(DataLoss, match="sha256:other"):
        await policy.push(Weights.of([SMALL]), step=1)


async def test_a_completion_of_other_weights_is_refused(policy: RunPolicy, service: Rollouts):
    await policy.ensure_loaded()
    with pytest.raises(FailedPrecondition, match="sha256:base"):
        await policy.generate([1, 2], Sampling(), "sha256:mine")


async def test_what_is_not_there_has_no_weights_and_is_unloaded(policy: RunPolicy):
    assert await policy.loaded_weights() is None
    await policy.unload()


async def test_an_update_of_a_policy_that_is_gone_and_stays_gone_ends(policy: RunPolicy, service: Rollouts):
    service.fails = 5
    with pytest.raises(FailedPrecondition):
        await policy.push(Weights.of([SMALL]), step=1)


async def test_calls_have_the_time_that_the_run_needs(
    service: Rollouts, target: str, make_job: Any, make_complete_spec: Any
):
    """4 x 8 completions of 4,096 tokens: more than the ten minutes of a small run."""
    chosen = Hyperparameters(batch_size=4, group_size=8, max_prompt_tokens=64, max_response_tokens=4096)
    job = make_job(make_complete_spec(hyperparameters=chosen)).model_copy(update={"rollout_target": target})
    async with rollouts(job) as engine:
        policy = RunPolicy.of(job, engine)
        sync = await policy.push(Weights.of([LARGE]), step=1)
        await policy.generate([1, 2], Sampling(), sync.policy_id)
    assert service.remaining["Generate"] > 40 * 60
    assert service.remaining["UpdateWeights"] > 9 * 60


async def test_more_prompts_than_an_update_has_wait_for_their_turn(policy: RunPolicy, service: Rollouts):
    sync = await policy.push(Weights.of([SMALL]), step=1)
    await asyncio.gather(*(policy.generate([1, 2], Sampling(), sync.policy_id) for _ in range(6)))
    assert service.most_at_once == 2
