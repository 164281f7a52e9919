"""What crosses comes back the same, and what is not set stays so."""

import pytest

from ratchet.common.v1 import chat_pb2, generation_pb2
from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit.errors import InvalidArgument
from ratchet_policies import (
    ChatPrompt,
    Completion,
    FinishReason,
    Policy,
    PolicyState,
    Prompt,
    Sampling,
    TextPrompt,
    TokenCandidate,
    TokenPrompt,
    Tool,
    Tools,
    convert,
)
from ratchet_problems import Message, ToolCall


@pytest.mark.parametrize(
    "prompt",
    [
        ChatPrompt((Message("system", "Be brief."), Message("user", "Write f."))),
        ChatPrompt(
            (
                Message("assistant", "", (ToolCall("run", "{}", "call_1", 1),)),
                Message("tool", "3", tool_call_id="call_1"),
            ),
            Tools((Tool("run"), Tool("see", "It sees.", "{}", False)), True, "see", True),
        ),
        TextPrompt("def f"),
        TextPrompt("def f", "return x"),
        TokenPrompt((1, 2)),
    ],
)
def test_prompts_cross(prompt: Prompt) -> None:
    assert convert.prompt_from_proto(convert.prompt_to_proto(prompt)) == prompt


def test_a_policy_is_known_by_its_weights_and_its_settings() -> None:
    message = rollout_pb2.Policy(
        name="starter@2",
        state=rollout_pb2.Policy.STATE_READY,
        policy_id="sha256:w",
        settings_id="sha256:s",
        weight_updates=3,
        has_chat_template=True,
    )
    expected = Policy(
        "starter@2", PolicyState.READY, "sha256:w", weight_updates=3, has_chat_template=True, settings_id="sha256:s"
    )
    assert convert.policy_from_proto(message) == expected


def test_a_content_in_parts_is_one_text() -> None:
    parts = [chat_pb2.ContentPart(text="Write "), chat_pb2.ContentPart(text="f.")]
    message = generation_pb2.Prompt(chat=chat_pb2.Chat(messages=[chat_pb2.ChatMessage(role="user", content=parts)]))
    assert convert.prompt_from_proto(message) == ChatPrompt((Message("user", "Write f."),))


def test_what_is_no_prompt_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidArgument) as refused:
        convert.prompt_from_proto(generation_pb2.Prompt())
    assert [violation.field for violation in refused.value.violations] == ["prompt"]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.0, top_p=0.0, top_k=0, max_tokens=0, seed=0, repetition_penalty=0.0),
        Sampling(0.5, 0.9, 40, 64, ("\n",), (2,), 7, True, True, 1.1, 4),
        Sampling(top_logprobs=0, presence_penalty=0.0, frequency_penalty=0.0, json_schema="", echo=True),
        Sampling(None, None, None, None, (), (), None, False, False, None, 1, 3, -2.0, 2.0, {0: -1.5, 7: 100.0}, "{}"),
        Sampling(min_p=0.0, must_fit=True),
    ],
)
def test_samplings_cross_and_zero_is_a_value(sampling: Sampling) -> None:
    assert convert.sampling_from_proto(convert.sampling_to_proto(sampling)) == sampling


@pytest.mark.parametrize("reason", FinishReason)
def test_completions_cross(reason: FinishReason) -> None:
    candidates = ((TokenCandidate(5, "def", -0.5), TokenCandidate(9, "if", -0.75)), (TokenCandidate(6, " f", -0.25),))
    calls = (ToolCall("run", "{}", "call_1"), ToolCall("", "}", "", 1))
    completion = Completion(1, "def f", reason, (5, 6), (-0.5, -0.25), candidates, calls, "\n\n", "Hm.")
    assert convert.completion_from_proto(convert.completion_to_proto(completion)) == completion
