from collections.abc import AsyncIterator

import pytest

from ratchet.common.v1 import chat_pb2, priority_pb2
from ratchet.common.v1.chat_pb2 import Chat, ChatMessage, ContentPart
from ratchet.common.v1.generation_pb2 import Prompt, SamplingParams, Tokens
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.work import Priority
from ratchet_policies import Begun, ChatPrompt, Sampling, TextPrompt, TokenPrompt
from ratchet_problems import Message
from rollout_service import convert
from rollout_service.domain.policy import Dtype, EngineOptions
from rollout_service.domain.weights import Chunk, TensorHeader

TOKENS = Prompt(tokens=Tokens(ids=[1]))
SEE = chat_pb2.Tool(name="see")


def offering(tools: chat_pb2.Tools) -> pb.GenerateRequest:
    said = [ChatMessage(role="user", content=[ContentPart(text="hi")])]
    return pb.GenerateRequest(policy="p", prompt=Prompt(chat=Chat(messages=said, tools=tools)))


ID = "sha256:" + "a" * 64


def fields(refused: pytest.ExceptionInfo[InvalidArgument]) -> list[str]:
    return [violation.field for violation in refused.value.violations]


def test_sampling_that_is_left_out_draws_from_the_model_itself() -> None:
    _, request, expected = convert.generation_from_proto(pb.GenerateRequest(policy="p", prompt=TOKENS))
    assert request.sampling == Sampling()
    assert request.prompt == TokenPrompt((1,))
    assert expected is None


def test_greedy_is_not_mistaken_for_left_out() -> None:
    greedy = pb.GenerateRequest(policy="p", prompt=Prompt(text="x"), sampling=SamplingParams(temperature=0, seed=0))
    _, request, _ = convert.generation_from_proto(greedy)
    assert (request.sampling.temperature, request.sampling.seed) == (0.0, 0)
    assert request.prompt == TextPrompt("x")


def test_chat() -> None:
    chat = Chat(messages=[ChatMessage(role="user", content=[ContentPart(text="hi")])])
    _, request, _ = convert.generation_from_proto(pb.GenerateRequest(policy="p", prompt=Prompt(chat=chat)))
    assert request.prompt == ChatPrompt((Message("user", "hi"),))
    own = pb.GenerateRequest(policy="p", prompt=Prompt(chat=chat), chat_template="{{ mine }}")
    assert convert.generation_from_proto(own)[1].prompt == ChatPrompt((Message("user", "hi"),), None, "{{ mine }}")


@pytest.mark.parametrize(
    ("ids", "count", "field"),
    [
        ([], 2, "prompt.chat.begun.token_ids"),
        ([1], 0, "prompt.chat.begun.messages"),
        ([1], 1, "prompt.chat.begun.messages"),
        ([1], 3, "prompt.chat.begun.messages"),
        ([1], 2, ""),
    ],
)
def test_a_chat_goes_on_from_an_answer(ids: list[int], count: int, field: str) -> None:
    said = [ChatMessage(role=role, content=[ContentPart(text="hi")]) for role in ("user", "assistant", "user")]
    chat = Chat(messages=said, begun=chat_pb2.Begun(token_ids=ids, messages=count))
    request = pb.GenerateRequest(policy="p", prompt=Prompt(chat=chat))
    if field:
        with pytest.raises(InvalidArgument) as refused:
            convert.generation_from_proto(request)
        assert fields(refused) == [field]
    else:
        prompt = convert.generation_from_proto(request)[1].prompt
        assert isinstance(prompt, ChatPrompt)
        assert prompt.begun == Begun((1,), 2)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.GenerateRequest(prompt=TOKENS), "policy"),
        (pb.GenerateRequest(policy="p"), "prompt"),
        (pb.GenerateRequest(policy="p", prompt=TOKENS, chat_template="{{ mine }}"), "chat_template"),
        (pb.GenerateRequest(policy="p", prompt=Prompt(text="")), "prompt.text"),
        (pb.GenerateRequest(policy="p", prompt=Prompt(tokens=Tokens())), "prompt.tokens.ids"),
        (pb.GenerateRequest(policy="p", prompt=Prompt(chat=Chat())), "prompt.chat.messages"),
        (offering(chat_pb2.Tools()), "prompt.chat.tools.offered"),
        (offering(chat_pb2.Tools(offered=[SEE, SEE])), "prompt.chat.tools.offered"),
        (offering(chat_pb2.Tools(offered=[SEE], called="run")), "prompt.chat.tools.called"),
        (offering(chat_pb2.Tools(offered=[chat_pb2.Tool(name="a b")])), "prompt.chat.tools.offered[0].name"),
        (
            offering(chat_pb2.Tools(offered=[chat_pb2.Tool(name="a", parameters="[]")])),
            "prompt.chat.tools.offered[0].parameters",
        ),
        (
            pb.GenerateRequest(policy="p", prompt=Prompt(chat=Chat(messages=[ChatMessage()]))),
            "prompt.chat.messages[0].role",
        ),
        (pb.GenerateRequest(policy="p", prompt=TOKENS, expected_policy_id="latest"), "expected_policy_id"),
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
        ({"top_k": 0}, "top_k"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": -1}, "n"),
        ({"n": 257}, "n"),
        ({"n": 2, "temperature": 0.0}, "n"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"stop": [""]}, "stop"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"logit_bias": {3: 101.0}}, "logit_bias[3]"),
        ({"json_schema": "[]"}, "json_schema"),
        ({"json_schema": "{"}, "json_schema"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
    ],
)
def test_names_the_sampling_parameter_that_is_wrong(sampling: dict[str, object], field: str) -> None:
    request = pb.GenerateRequest(policy="p", prompt=TOKENS, sampling=SamplingParams(**sampling))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as refused:
        convert.generation_from_proto(request)
    assert fields(refused) == [f"sampling.{field}"]


def test_an_echo_may_be_alone() -> None:
    request = pb.GenerateRequest(policy="p", prompt=TOKENS, sampling=SamplingParams(max_tokens=0, echo=True))
    assert convert.generation_from_proto(request)[1].sampling == Sampling(max_tokens=0, echo=True)


def test_names_all_faults_at_once() -> None:
    options = pb.EngineOptions(dtype=9, max_model_len=-1)  # type: ignore[arg-type]
    request = pb.LoadPolicyRequest(name="a/b", options=options)
    with pytest.raises(InvalidArgument) as refused:
        convert.load_policy_from_proto(request)
    assert fields(refused) == ["name", "source_uri", "options.dtype", "options.max_model_len"]


def test_options_that_are_left_out_are_the_services_to_choose() -> None:
    given = pb.EngineOptions(dtype=pb.DTYPE_BFLOAT16, kv_cache_bytes=1 << 20)
    request = convert.load_policy_from_proto(pb.LoadPolicyRequest(name="p", source_uri="/m", options=given))
    assert request.options == EngineOptions(Dtype.BFLOAT16, kv_cache_bytes=1 << 20)


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


@pytest.mark.parametrize(
    ("given", "priority"),
    [
        (priority_pb2.PRIORITY_UNSPECIFIED, Priority.NORMAL),
        (priority_pb2.PRIORITY_LOW, Priority.LOW),
        (priority_pb2.PRIORITY_HIGH, Priority.HIGH),
    ],
)
def test_a_request_has_a_priority(given: priority_pb2.Priority.ValueType, priority: Priority) -> None:
    _, request, _ = convert.generation_from_proto(pb.GenerateRequest(policy="p", prompt=TOKENS, priority=given))
    assert request.priority is priority
