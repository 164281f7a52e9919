"""What is asked of a policy, and what it answers."""

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
    """Whether the arguments surely follow the schema; None: as the parser of the model's calls does by itself."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a policy may call, and what it must."""

    offered: tuple[Tool, ...]
    required: bool = False
    """At least one is called."""
    called: str = ""
    """The one that is called, by its name; empty: any."""
    single: bool = False
    """At most one call."""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Put to the policy in its model's chat template."""

    messages: tuple[Message, ...]
    tools: Tools | None = None


@dataclass(frozen=True, slots=True)
class TextPrompt:
    text: str


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
    """Whether each token comes with its log-prob."""
    repetition_penalty: float | None = None
    n: int = 1
    """Completions of the prompt."""
    top_logprobs: int | None = None
    """Each token comes with its text, and with so many of the likeliest tokens at its place; None: neither."""
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    """Both in [-2, 2]."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """By token id."""
    json_schema: str | None = None
    """What the text has to follow."""
    echo: bool = False
    """Whether the prompt comes back, too."""


class FinishReason(StrEnum):
    UNFINISHED = "unfinished"
    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"
    """The engine gave up: see `BrokenOff`."""
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
    """Without what calls tools."""
    finish_reason: FinishReason = FinishReason.UNFINISHED
    token_ids: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    """Natural, one per token; empty unless asked for."""
    candidates: tuple[tuple[TokenCandidate, ...], ...] = ()
    """Of each token: first itself, then the `top_logprobs` likeliest at its place; empty unless asked for."""
    tool_calls: tuple[ToolCall, ...] = ()


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
    """Of each token, as a completion's; empty without `top_logprobs`. Before temperature and the like. Nothing comes
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


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed generation."""

    completion: Completion
    policy_id: str
    prompt_tokens: int = 0
    """Set on the first piece, as the echo is when it was asked for."""
    echo: Echo | None = None
