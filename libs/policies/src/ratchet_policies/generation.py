"""Requests to a policy, and its answers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ratchet_kit.errors import Unavailable
from ratchet_problems import Message, ToolCall


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the policy may call."""

    name: str
    description: str = ""
    parameters: str = ""
    """A JSON Schema of its arguments, which are a JSON object; empty: any."""
    strict: bool | None = None
    """True where the arguments surely follow the schema; None: as the parser of the model's calls does by itself."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that a policy may call, and those that it must."""

    offered: tuple[Tool, ...]
    required: bool = False
    """At least one is called."""
    called: str = ""
    """The one that is called, by its name; empty: any."""
    single: bool = False
    """At most one call: later ones are left out."""

    @property
    def hold(self) -> bool:
        """True where the model is held to a call, or to the form of one; else it alone chooses the tokens."""
        return self.required or bool(self.called) or any(tool.strict for tool in self.offered)


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of a conversation as the model read and wrote it."""

    ids: tuple[int, ...]
    """The prompt of an earlier completion and the tokens sampled for it."""
    messages: int
    """Number of messages that the tokens hold, the sampled answer last."""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Put to the policy in its model's chat template."""

    messages: tuple[Message, ...]
    tools: Tools | None = None
    chat_template: str = ""
    """Jinja; in place of the model's."""
    begun: Begun | None = None
    """Only the messages after it are rendered; None: all are."""


@dataclass(frozen=True, slots=True)
class TextPrompt:
    text: str
    suffix: str = ""
    """Comes after the gap that the policy fills, by its tokenizer's special tokens; empty: it goes on from the text."""


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    ids: Sequence[int]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw tokens. None leaves a choice to rollout-service."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    """New ones of a completion; None: up to the model's length; 0: for an echo alone."""
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    ignore_eos: bool = False
    logprobs: bool = False
    """True where each token comes with its log-prob."""
    repetition_penalty: float | None = None
    n: int = 1
    """Completions of the prompt."""
    top_logprobs: int | None = None
    """Each token comes with its text, and with this many of the likeliest tokens at its place; None: neither."""
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    """Both in [-2, 2]."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """By token id."""
    json_schema: str | None = None
    """The form that the text has to follow."""
    echo: bool = False
    """True where the prompt comes back, too."""
    min_p: float | None = None
    """In [0, 1]: the least share of the likeliest token's probability with which another is drawn."""
    must_fit: bool = False
    """True where `max_tokens` beyond the model's length are refused; else a completion ends there."""


class FinishReason(StrEnum):
    UNFINISHED = "unfinished"
    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"
    """The engine gave up, or new weights broke it off: see `BrokenOff`."""
    TOOL_CALLS = "tool_calls"
    """It calls tools, and was free to: a call that the request names is a STOP."""


@dataclass(frozen=True, slots=True)
class TokenCandidate:
    """A token that was sampled, or could have been."""

    token_id: int
    text: str
    log_prob: float
    """Natural."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion of a prompt, or in a stream what is new of it."""

    index: int
    text: str
    """Without what calls tools, and without its reasoning."""
    finish_reason: FinishReason = FinishReason.UNFINISHED
    token_ids: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    """Natural, one per token; empty unless asked for."""
    candidates: tuple[tuple[TokenCandidate, ...], ...] = ()
    """For each token: first itself, then the `top_logprobs` likeliest at its place; empty unless asked for."""
    tool_calls: tuple[ToolCall, ...] = ()
    stop: str = ""
    """The stop string that ended it; empty for any other end."""
    reasoning: str = ""
    """Thoughts before the answer, where the node has a parser of the model's."""

    @property
    def said(self) -> str:
        """All of it, thoughts in tags: runs, which read tokens, see them so."""
        if not self.reasoning:
            return self.text
        return f"<think>{self.reasoning}" + (f"</think>{self.text}" if self.text else "")


def joined(pieces: Sequence[Completion]) -> Completion:
    """A completion of the pieces that came of it, in their order."""
    calls: tuple[ToolCall, ...] = ()
    for piece in pieces:
        calls = joined_calls(calls, piece.tool_calls)
    return Completion(
        index=pieces[-1].index,
        text="".join(piece.text for piece in pieces),
        finish_reason=pieces[-1].finish_reason,
        token_ids=tuple(token for piece in pieces for token in piece.token_ids),
        log_probs=tuple(one for piece in pieces for one in piece.log_probs),
        candidates=tuple(one for piece in pieces for one in piece.candidates),
        tool_calls=calls,
        stop=pieces[-1].stop,
        reasoning="".join(piece.reasoning for piece in pieces),
    )


def joined_calls(calls: Sequence[ToolCall], pieces: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls of a stream so far, with what is new of them."""
    known = {call.index: call for call in calls}
    for new in pieces:
        old = known.get(new.index, ToolCall("", index=new.index))
        known[new.index] = ToolCall(old.name + new.name, old.arguments + new.arguments, old.id or new.id, new.index)
    return tuple(known[index] for index in sorted(known))


_MOST = "this model's maximum context length is {most} tokens"
_OVER_LENGTH = _MOST + ", completion included, and the prompt has {tokens}"
_NO_ROOM = _MOST + ", and {wanted} are requested: {tokens} of the prompt and {max_tokens} of max_tokens"
_NUMBERS = {"most": r"\d+", "wanted": r"\d+", "tokens": r"(?:at least )?\d+", "max_tokens": r"\d+"}
_IS_OVER_LENGTH = re.compile("|".join(text.format(**_NUMBERS) for text in (_OVER_LENGTH, _NO_ROOM)))


def over_length(tokens: int, most: int, *, at_least: bool = False) -> str:
    """A node's error for a prompt that is too long for its model: in words that clients of OpenAI's API look for."""
    return _OVER_LENGTH.format(most=most, tokens=f"at least {tokens}" if at_least else tokens)


def no_room(tokens: int, max_tokens: int, most: int) -> str:
    """A node's error for a prompt that fits and leaves no room for `max_tokens`."""
    return _NO_ROOM.format(most=most, wanted=tokens + max_tokens, tokens=tokens, max_tokens=max_tokens)


def is_over_length(text: str) -> bool:
    """True for those two errors of a node. Errors cross as text."""
    return _IS_OVER_LENGTH.fullmatch(text) is not None


class BrokenOff(Unavailable):
    """The engine gave up before an answer's end. What there is of it is no answer, and no sample of the policy."""


def require_whole(completions: Iterable[Completion]) -> None:
    """Raises BrokenOff where the engine gave up on one of them."""
    if any(one.finish_reason is FinishReason.ABORTED for one in completions):
        raise BrokenOff("the engine broke the answer off")


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt as it was put to the policy."""

    text: str
    candidates: tuple[tuple[TokenCandidate, ...], ...] = ()
    """For each token, as a completion's; empty without `top_logprobs`. Before temperature and the like. Nothing comes
    before the first token, whose log-prob is NaN."""


@dataclass(frozen=True, slots=True)
class Generation:
    """All completions of one prompt."""

    completions: tuple[Completion, ...]
    policy_id: str
    """The weights that made them."""
    prompt_tokens: int
    echo: Echo | None = None
    """When it was asked for."""
    prompt_ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed generation."""

    completion: Completion
    policy_id: str
    prompt_tokens: int = 0
    """Set on the first piece, as the prompt's ids are, and the echo when it was asked for."""
    echo: Echo | None = None
    prompt_ids: Sequence[int] = ()
