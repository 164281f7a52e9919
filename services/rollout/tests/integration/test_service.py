"""The service behind gRPC, over scripted engines, as callers see it."""

import hashlib
from collections.abc import AsyncIterator

import grpc
import pytest

from ratchet.common.v1 import generation_pb2
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit import grpc_errors
from ratchet_kit.client import channel
from ratchet_kit.errors import InvalidArgument
from ratchet_testing import serving
from rollout_service.domain.policy import PolicyName
from rollout_service.main import provision
from rollout_service.settings import Settings

from ..memory import LOG_PROB, MemoryFolders, MemoryJournal, ScriptedEngines, content_id

pytestmark = pytest.mark.integration

BASE = content_id(b"base")
Stub = rollout_pb2_grpc.RolloutServiceStub
TOKENS = generation_pb2.Prompt(tokens=generation_pb2.Tokens(ids=[1, 2, 3]))


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    folders = MemoryFolders({"/base": BASE})
    async with (
        provision(Settings(), engines=ScriptedEngines(), folders=folders, journal=MemoryJournal()) as service,
        serving(service.add_to) as target,
        channel(target) as open_channel,
    ):
        stub = rollout_pb2_grpc.RolloutServiceStub(open_channel)
        await stub.LoadPolicy(pb.LoadPolicyRequest(request_id="r", name="p", source_uri="/base"))
        await service.policies.settled(PolicyName("p"))
        yield stub


def code(error: grpc.aio.AioRpcError) -> grpc.StatusCode:
    return error.code()


async def test_a_loaded_policy_is_listed(stub: Stub) -> None:
    listed = await stub.ListPolicies(pb.ListPoliciesRequest())
    assert [policy.name for policy in listed.policies] == ["p"]
    policy = (await stub.GetPolicy(pb.GetPolicyRequest(name="p"))).policy
    assert policy.state == pb.Policy.STATE_READY
    assert (policy.policy_id, policy.source_uri, policy.dtype) == (BASE, "/base", pb.DTYPE_FLOAT32)
    assert policy.settings_id == content_id(b"/base")
    assert policy.HasField("ready_time")


async def test_generates(stub: Stub) -> None:
    sampling = generation_pb2.SamplingParams(max_tokens=3, logprobs=True, n=2)
    response = await stub.Generate(
        pb.GenerateRequest(policy="p", prompt=TOKENS, sampling=sampling, expected_policy_id=BASE)
    )
    assert response.policy_id == BASE
    assert list(response.prompt_token_ids) == [1, 2, 3]
    assert [completion.index for completion in response.completions] == [0, 1]
    assert list(response.completions[0].log_probs) == [LOG_PROB] * 3
    assert response.completions[0].finish_reason == generation_pb2.FINISH_REASON_LENGTH


async def test_streams(stub: Stub) -> None:
    request = pb.GenerateRequest(policy="p", prompt=TOKENS, sampling=generation_pb2.SamplingParams(max_tokens=3))
    pieces = [piece async for piece in stub.StreamGenerate(pb.StreamGenerateRequest(request=request))]
    assert [list(piece.delta.token_ids) for piece in pieces] == [[0], [1], [2]]
    assert [piece.prompt_tokens for piece in pieces] == [3, 0, 0]
    assert pieces[-1].delta.finish_reason == generation_pb2.FINISH_REASON_LENGTH
    assert {piece.policy_id for piece in pieces} == {BASE}


async def test_takes_weights(stub: Stub) -> None:
    response = await stub.UpdateWeights(weights(b"new", content_id(b"new")))
    assert response.policy.policy_id == content_id(b"new")
    assert (response.size_bytes, response.policy.weight_updates) == (3, 1)
    generated = await stub.Generate(pb.GenerateRequest(policy="p", prompt=TOKENS))
    assert generated.policy_id == content_id(b"new")


async def test_other_weights_than_announced_are_data_loss(stub: Stub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.UpdateWeights(weights(b"new", content_id(b"else")))
    assert code(refused.value) is grpc.StatusCode.DATA_LOSS


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (pb.GenerateRequest(policy="none", prompt=TOKENS), grpc.StatusCode.NOT_FOUND),
        (pb.GenerateRequest(policy="p"), grpc.StatusCode.INVALID_ARGUMENT),
        (
            pb.GenerateRequest(policy="p", prompt=TOKENS, expected_policy_id=content_id(b"else")),
            grpc.StatusCode.FAILED_PRECONDITION,
        ),
    ],
)
async def test_refuses(stub: Stub, request_: pb.GenerateRequest, expected: grpc.StatusCode) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Generate(request_)
    assert code(refused.value) is expected


async def test_a_prompt_that_is_too_long_names_its_field(stub: Stub) -> None:
    prompt = generation_pb2.Prompt(tokens=generation_pb2.Tokens(ids=range(100)))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Generate(pb.GenerateRequest(policy="p", prompt=prompt))
    error = grpc_errors.from_rpc_error(refused.value)
    assert isinstance(error, InvalidArgument)
    assert error.violations[0].field == "prompt.tokens.ids"


async def test_unloads(stub: Stub) -> None:
    await stub.UnloadPolicy(pb.UnloadPolicyRequest(name="p"))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.GetPolicy(pb.GetPolicyRequest(name="p"))
    assert code(refused.value) is grpc.StatusCode.NOT_FOUND


async def weights(content: bytes, announced: str) -> AsyncIterator[pb.UpdateWeightsRequest]:
    yield pb.UpdateWeightsRequest(header=pb.UpdateWeightsHeader(policy="p", policy_id=announced))
    sha256 = hashlib.sha256(content).hexdigest()
    yield pb.UpdateWeightsRequest(tensor=pb.TensorHeader(name="w", dtype="U8", shape=[len(content)], sha256=sha256))
    yield pb.UpdateWeightsRequest(chunk=content)
