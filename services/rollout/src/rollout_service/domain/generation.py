"""A request for completions, and what comes back."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from rollout_service.domain.policy import PolicyId


@dataclass(frozen=True)
class ChatMessage:
    role: str
    content: str


@dataclass(frozen=True)
class TokenPrompt:
    ids: tuple[int, ...]


@dataclass(frozen=True)
class TextPrompt:
    text: str


@dataclass(frozen=True)
class ChatPrompt:
    """Rendered by the tokenizer's own chat template, with its generation prompt."""

    messages: tuple[ChatMessage, ...]


Prompt = TokenPrompt | TextPrompt | ChatPrompt


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; the defaults draw from the model's own distribution."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0: off."""
    max_tokens: int = 0
    """New tokens at most; 0 means up to the model's length."""
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    ignore_eos: bool = False
    logprobs: bool = False
    repetition_penalty: float = 1.0
    n: int = 1
    """Completions of the prompt."""


@dataclass(frozen=True)
class GenerationRequest:
    prompt: Prompt
    sampling: Sampling = field(default_factory=Sampling)


class FinishReason(Enum):
    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Completion:
    """One completion, or the new piece of one when streamed (then `finish_reason` is None until its last piece)."""

    index: int
    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """One per token when asked for, else empty: natural logs under the distribution that was sampled from."""
    text: str
    finish_reason: FinishReason | None


@dataclass(frozen=True)
class EngineOutput:
    """What an engine yields for a request: completions (or pieces) and the prompt as it was tokenized."""

    completions: tuple[Completion, ...]
    prompt_token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Generation:
    """Completions and the weights that made them."""

    completions: tuple[Completion, ...]
    prompt_token_ids: tuple[int, ...]
    policy_id: PolicyId
    duration: timedelta
