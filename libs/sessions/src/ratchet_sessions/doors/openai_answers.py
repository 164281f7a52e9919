"""Answers of OpenAI's API (https://platform.openai.com/docs/api-reference): whole, and in chunks."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer

from ratchet_policies import Completion, Echo, FinishReason, TokenCandidate
from ratchet_problems import ToolCall
from ratchet_sessions.doors.answers import Answer

FINISH_REASONS = {
    FinishReason.UNFINISHED: None,
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
}
"""Without ABORTED: the completer raises for it."""
LEAST_LOGPROB = -9999.0
"""For a token that has no probability: JSON has no infinity."""


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, prompt: int, completion: int) -> "Usage":
        return cls(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


class TopLogprob(BaseModel):
    token: str
    logprob: float
    bytes: list[int] | None
    """None of a part of a character, whose own bytes are not known."""


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    content: list[TokenLogprob]
    refusal: None = None


class TextLogprobs(BaseModel):
    tokens: list[str]
    token_logprobs: list[float | None]
    """None for the first token of an echoed prompt: nothing comes before it."""
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class _Reasoned(BaseModel):
    reasoning_content: str | None = Field(
        default=None, description="Not OpenAI's: the model's thoughts, if it has some."
    )

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        return written if self.reasoning_content else {k: v for k, v in written.items() if k != "reasoning_content"}


class AnswerMessage(_Reasoned):
    role: Literal["assistant"] = "assistant"
    content: str


class MadeFunctionCall(BaseModel):
    name: str
    arguments: str = Field(description="A JSON object, as the model wrote it.")


class MadeCall(BaseModel):
    id: str
    type: Literal["function"] = "function"
    function: MadeFunctionCall


class CallingMessage(_Reasoned):
    role: Literal["assistant"] = "assistant"
    content: str | None
    tool_calls: list[MadeCall]


class ChatChoice(BaseModel):
    index: int
    message: AnswerMessage | CallingMessage
    logprobs: ChatLogprobs | None
    finish_reason: str


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = Field(description='The version that answered, "starter@2".')
    system_fingerprint: str = Field(description="The content hash of its weights.")
    choices: list[ChatChoice]
    usage: Usage


class TextChoice(BaseModel):
    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: str
    completion_id: str = Field(description="Not OpenAI's: for feedback on one of several prompts.")


class TextCompletion(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "ratchet"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


def chat_whole(answers: Sequence[Answer], created: int) -> ChatCompletion:
    (answer,) = answers
    return ChatCompletion(
        id=answer.id,
        created=created,
        model=str(answer.version),
        system_fingerprint=answer.generation.policy_id,
        choices=[
            ChatChoice(
                index=choice.index,
                message=_message(choice),
                logprobs=_chat_logprobs(choice),
                finish_reason=FINISH_REASONS[choice.finish_reason] or "stop",
            )
            for choice in answer.generation.completions
        ],
        usage=_usage(answers),
    )


def text_whole(answers: Sequence[Answer], created: int) -> TextCompletion:
    """The choices of the first prompt, then those of the next."""
    first = answers[0]
    choices: list[TextChoice] = []
    for answer in answers:
        choices += [
            TextChoice(
                index=len(choices) + choice.index,
                text=choice.text,
                logprobs=_text_logprobs(choice, 0),
                finish_reason=FINISH_REASONS[choice.finish_reason] or "stop",
                completion_id=answer.id,
            )
            for choice in (echoing(made, answer.generation.echo) for made in answer.generation.completions)
        ]
    return TextCompletion(
        id=first.id,
        created=created,
        model=str(first.version),
        system_fingerprint=first.generation.policy_id,
        choices=choices,
        usage=_usage(answers),
    )


def echoing(choice: Completion, echo: Echo | None) -> Completion:
    """The choice, or its first piece, behind its prompt."""
    if echo is None:
        return choice
    return replace(choice, text=echo.text + choice.text, candidates=(*echo.candidates, *choice.candidates))


def chat_delta(choice: Completion, index: int, offset: int, opens: bool) -> dict[str, Any]:
    is_text = choice.text or (opens and not choice.tool_calls)  # to clients an answer without it has no content
    delta: dict[str, Any] = {"content": choice.text} if is_text else {}
    if choice.reasoning:
        delta["reasoning_content"] = choice.reasoning
    if choice.tool_calls:
        delta["tool_calls"] = [_call_delta(call) for call in choice.tool_calls]
    logprobs = _chat_logprobs(choice)
    return {
        "index": index,
        "delta": {"role": "assistant"} | delta if opens else delta,
        "logprobs": logprobs.model_dump() if logprobs else None,
        "finish_reason": FINISH_REASONS[choice.finish_reason],
    }


def text_delta(choice: Completion, index: int, offset: int, opens: bool) -> dict[str, Any]:
    logprobs = _text_logprobs(choice, offset)
    return {
        "index": index,
        "text": choice.text,
        "logprobs": logprobs.model_dump() if logprobs else None,
        "finish_reason": FINISH_REASONS[choice.finish_reason],
    }


@dataclass(frozen=True, slots=True)
class Shape:
    """How one endpoint writes an answer."""

    whole: Callable[[Sequence[Answer], int], ChatCompletion | TextCompletion]
    chunk: str
    delta: Callable[[Completion, int, int, bool], Mapping[str, Any]]
    """Takes a piece, its choice's index, the characters that came before it, and whether it is the choice's first."""


CHAT = Shape(chat_whole, "chat.completion.chunk", chat_delta)
TEXT = Shape(text_whole, "text_completion", text_delta)


def _usage(answers: Sequence[Answer]) -> Usage:
    prompt = sum(answer.generation.prompt_tokens for answer in answers)
    return Usage.of(prompt, sum(answer.completion_tokens for answer in answers))


def _message(choice: Completion) -> AnswerMessage | CallingMessage:
    if not choice.tool_calls:
        return AnswerMessage(content=choice.text, reasoning_content=choice.reasoning or None)
    calls = [
        MadeCall(id=call.id, function=MadeFunctionCall(name=call.name, arguments=call.arguments))
        for call in choice.tool_calls
    ]
    return CallingMessage(content=choice.text or None, tool_calls=calls, reasoning_content=choice.reasoning or None)


def _call_delta(call: ToolCall) -> dict[str, Any]:
    """The first piece of a call has its id and its name, as OpenAI's."""
    function = {"name": call.name} if call.name else {}
    opens = {"id": call.id, "type": "function"} if call.id else {}
    return {"index": call.index} | opens | {"function": function | {"arguments": call.arguments}}


def _chat_logprobs(choice: Completion) -> ChatLogprobs | None:
    if not choice.candidates:
        return None
    content = [
        TokenLogprob(**_token(sampled), top_logprobs=[TopLogprob(**_token(one)) for one in likeliest])
        for sampled, *likeliest in choice.candidates
    ]
    return ChatLogprobs(content=content)


def _token(one: TokenCandidate) -> dict[str, Any]:
    own = None if "\ufffd" in one.text else list(one.text.encode())
    return {"token": one.text, "logprob": max(one.log_prob, LEAST_LOGPROB), "bytes": own}


def _text_logprobs(choice: Completion, offset: int) -> TextLogprobs | None:
    if not choice.candidates:
        return None
    tokens = [each[0].text for each in choice.candidates]
    offsets = [offset + sum(map(len, tokens[:place])) for place in range(len(tokens))]
    scores = [
        None if math.isnan(each[0].log_prob) else max(each[0].log_prob, LEAST_LOGPROB) for each in choice.candidates
    ]
    top = [{one.text: max(one.log_prob, LEAST_LOGPROB) for one in each[1:]} or None for each in choice.candidates]
    return TextLogprobs(
        tokens=tokens,
        token_logprobs=scores,
        top_logprobs=top if any(top) else None,
        text_offset=offsets,
    )
