from collections.abc import AsyncIterator

import pytest

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from rollout_service import convert
from rollout_service.domain.generation import ChatMessage, ChatPrompt, Sampling, TextPrompt, TokenPrompt
from rollout_service.domain.weights import Chunk, TensorHeader

TOKENS = pb.TokenPrompt(ids=[1])
ID = "sha256:" + "a" * 64


def fields(refused: pytest.ExceptionInfo[InvalidArgument]) -> list[str]:
    return [violation.field for violation in refused.value.violations]


def test_sampling_that_is_left_out_draws_from_the_model_itself() -> None:
    _, request, expected = convert.generation_from_proto(pb.GenerateRequest(policy="p", tokens=TOKENS))
    assert request.sampling == Sampling()
    assert request.prompt == TokenPrompt((1,))
    assert expected is None


def test_greedy_is_not_mistaken_for_left_out() -> None:
    sampling = pb.SamplingParams(temperature=0, seed=0)
    _, request, _ = convert.generation_from_proto(pb.GenerateRequest(policy="p", text="x", sampling=sampling))
    assert (request.sampling.temperature, request.sampling.seed) == (0.0, 0)
    assert request.prompt == TextPrompt("x")


def test_chat() -> None:
    chat = pb.ChatPrompt(messages=[pb.ChatMessage(role="user", content="hi")])
    _, request, _ = convert.generation_from_proto(pb.GenerateRequest(policy="p", chat=chat))
    assert request.prompt == ChatPrompt((ChatMessage("user", "hi"),))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.GenerateRequest(tokens=TOKENS), "policy"),
        (pb.GenerateRequest(policy="p"), "prompt"),
        (pb.GenerateRequest(policy="p", text=""), "text"),
        (pb.GenerateRequest(policy="p", tokens=pb.TokenPrompt()), "tokens.ids"),
        (pb.GenerateRequest(policy="p", chat=pb.ChatPrompt()), "chat.messages"),
        (pb.GenerateRequest(policy="p", chat=pb.ChatPrompt(messages=[pb.ChatMessage()])), "chat.messages[0].role"),
        (pb.GenerateRequest(policy="p", tokens=TOKENS, expected_policy_id="latest"), "expected_policy_id"),
    ],
)
def test_names_the_field_that_is_wrong(request_: pb.GenerateRequest, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        convert.generation_from_proto(request_)
    assert fields(refused) == [field]


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"n": -1}, "n"),
        ({"n": 257}, "n"),
        ({"n": 2, "temperature": 0.0}, "n"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"stop": [""]}, "stop"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
    ],
)
def test_names_the_sampling_parameter_that_is_wrong(sampling: dict[str, object], field: str) -> None:
    request = pb.GenerateRequest(policy="p", tokens=TOKENS, sampling=pb.SamplingParams(**sampling))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as refused:
        convert.generation_from_proto(request)
    assert fields(refused) == [f"sampling.{field}"]


def test_names_all_faults_at_once() -> None:
    request = pb.LoadPolicyRequest(name="a/b", options=pb.EngineOptions(dtype="int8", max_model_len=-1))
    with pytest.raises(InvalidArgument) as refused:
        convert.load_policy_from_proto(request)
    assert fields(refused) == ["name", "source", "options.dtype", "options.max_model_len"]


async def stream(*messages: pb.UpdateWeightsRequest) -> AsyncIterator[pb.UpdateWeightsRequest]:
    for message in messages:
        yield message


HEADER = pb.UpdateWeightsRequest(header=pb.UpdateWeightsHeader(policy="p", policy_id=ID, step=3))


async def test_weights_are_read_in_order() -> None:
    tensor = pb.UpdateWeightsRequest(tensor=pb.TensorHeader(name="w", dtype="F32", shape=[2, 3], sha256="00"))
    update, weights = await convert.weight_update_from_proto(
        stream(HEADER, tensor, pb.UpdateWeightsRequest(chunk=b"x"))
    )
    assert (update.policy, update.policy_id, update.step) == ("p", ID, 3)
    assert [part async for part in weights] == [TensorHeader("w", "F32", (2, 3), "00"), Chunk(b"x")]


@pytest.mark.parametrize("messages", [[], [pb.UpdateWeightsRequest(chunk=b"x")]])
async def test_weights_without_a_header_are_refused(messages: list[pb.UpdateWeightsRequest]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await convert.weight_update_from_proto(stream(*messages))
    assert fields(refused) == ["header"]


async def test_weights_under_no_policy_id_are_refused() -> None:
    with pytest.raises(InvalidArgument) as refused:
        await convert.weight_update_from_proto(
            stream(pb.UpdateWeightsRequest(header=pb.UpdateWeightsHeader(policy="p")))
        )
    assert fields(refused) == ["header.policy_id"]


async def test_a_second_header_is_refused() -> None:
    _, weights = await convert.weight_update_from_proto(stream(HEADER, HEADER))
    with pytest.raises(InvalidArgument):
        [part async for part in weights]
