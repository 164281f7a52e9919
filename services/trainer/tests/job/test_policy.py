import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import failure_pb2, node_pb2
from ratchet.rollout.v1 import rollout_pb2, rollout_pb2_grpc
from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss, FailedPrecondition, NotFound
from ratchet_policies import PolicySpec, Sampling, tensor_changes
from ratchet_policies.fleet import Fleet
from ratchet_testing.services import serving
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.job.policy.policy import CHUNK_BYTES, RunPolicy, Weights, rollouts

NAME = "run-run_1"
SMALL = policy_id.Tensor("a", "F32", (2,), struct.pack("<2f", 1.0, 2.0))
LARGE = policy_id.Tensor("b", "F32", (3 * CHUNK_BYTES // 8,), bytes(3 * CHUNK_BYTES // 2))


class Rollouts(rollout_pb2_grpc.RolloutServiceServicer):
    """One policy, in memory. `fails`: how many loads end in FAILED."""

    def __init__(self) -> None:
        self.policy: rollout_pb2.Policy | None = None
        self.fails = 0
        self.loads = 0
        self.lies = False
        self.is_damaged = False
        """Whether changes cannot be read."""
        self.tensors: dict[str, policy_id.Tensor] = {}
        self.updates = 0
        self.remaining: dict[str, float] = {}
        """Seconds that the last call of each method had left."""
        self.generating = self.most_at_once = 0

    async def GetNode(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.GetNodeResponse:
        return rollout_pb2.GetNodeResponse(node=node_pb2.Node(state=node_pb2.Node.STATE_SERVING))

    async def GetPolicy(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.GetPolicyResponse:
        if self.policy is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"policy {request.name}")
        return rollout_pb2.GetPolicyResponse(policy=self.policy)

    async def LoadPolicy(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.LoadPolicyResponse:
        self.loads += 1
        failed = self.loads <= self.fails
        state = rollout_pb2.Policy.STATE_FAILED if failed else rollout_pb2.Policy.STATE_READY
        self.policy = rollout_pb2.Policy(
            name=request.name,
            source_uri=request.source_uri,
            state=state,
            policy_id="sha256:base",
            failure=failure_pb2.Failure(message="no memory") if failed else None,
        )
        return rollout_pb2.LoadPolicyResponse(policy=rollout_pb2.Policy(state=rollout_pb2.Policy.STATE_LOADING))

    async def UnloadPolicy(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.UnloadPolicyResponse:
        self.policy = None
        return rollout_pb2.UnloadPolicyResponse()

    async def UpdateWeights(
        self, requests: Any, context: grpc.aio.ServicerContext
    ) -> rollout_pb2.UpdateWeightsResponse:
        self.remaining["UpdateWeights"] = context.time_remaining()
        tensors: list[tuple[rollout_pb2.TensorHeader, bytearray]] = []
        self.updates += 1
        async for request in requests:
            match request.WhichOneof("message"):
                case "header":
                    header = request.header
                case "tensor":
                    tensors.append((request.tensor, bytearray()))
                case "chunk":
                    assert len(request.chunk) <= CHUNK_BYTES
                    tensors[-1][1].extend(request.chunk)
        if self.policy is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "policy")
        whole = {}
        if header.HasField("base_policy_id"):
            if header.base_policy_id != self.policy.policy_id:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "other weights: send them whole")
            if self.is_damaged:
                await context.abort(grpc.StatusCode.DATA_LOSS, "changes of something else")
            whole = dict(self.tensors)
        for tensor, data in tensors:
            new = tensor_changes.decode(whole[tensor.name].data, bytes(data), 2) if tensor.changes else bytes(data)
            whole[tensor.name] = policy_id.Tensor(tensor.name, tensor.dtype, tuple(tensor.shape), new)
        received = policy_id.compute(whole.values())
        assert received == header.policy_id
        self.tensors = whole
        self.policy.policy_id = "sha256:other" if self.lies else received
        return rollout_pb2.UpdateWeightsResponse(
            policy=self.policy,
            size_bytes=sum(len(tensor.data) for tensor in whole.values()),
            received_bytes=sum(len(data) for _, data in tensors),
        )

    async def Generate(self, request: Any, context: grpc.aio.ServicerContext) -> rollout_pb2.GenerateResponse:
        self.remaining["Generate"] = context.time_remaining()
        self.generating += 1
        self.most_at_once = max(self.most_at_once, self.generating)
        await asyncio.sleep(0.05)
        self.generating -= 1
        if self.policy is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"policy {request.policy}")
        return rollout_pb2.GenerateResponse(policy_id=self.policy.policy_id)


@pytest.fixture
def service() -> Rollouts:
    return Rollouts()


@asynccontextmanager
async def served(service: Rollouts) -> AsyncIterator[str]:
    def add(server: grpc.aio.Server) -> list[str]:
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(service, server)
        return ["ratchet.rollout.v1.RolloutService"]

    async with serving(add) as target:
        yield target


@pytest.fixture
async def target(service: Rollouts) -> AsyncIterator[str]:
    async with served(service) as target:
        yield target


@pytest.fixture
async def policy(target: str) -> AsyncIterator[RunPolicy]:
    spec = PolicySpec(NAME, "/models/starter", dtype="float32", max_model_len=160)
    async with Fleet.of(target) as engine:
        yield RunPolicy(engine, spec, patience=timedelta(seconds=5), at_once=2)


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
            policy = RunPolicy(engine, PolicySpec(NAME, "/models/starter"), patience=timedelta(seconds=30))
            sync = await policy.push(Weights.of([SMALL]), step=1)
            [index] = [number for number, one in enumerate(services) if one.policy is not None]
            await stacks[index].aclose()
            with pytest.raises(NotFound):
                await policy.generate([1, 2], Sampling(), sync.policy_id)
            assert (await policy.push(Weights.of([SMALL]), step=1)).policy_id == sync.policy_id
            assert (await policy.generate([1, 2], Sampling(), sync.policy_id)).policy_id == sync.policy_id
    assert [one.loads for one in services] == [1, 1]


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
