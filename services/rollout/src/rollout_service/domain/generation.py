"""Generation: prompts, sampling, completions."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from rollout_service.domain.policy import PolicyId


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    text: str


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Rendered with the chat template of the tokenizer, including its generation prompt."""

    messages: tuple[ChatMessage, ...]


Prompt = TokenPrompt | TextPrompt | ChatPrompt


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. The defaults sample from the unchanged distribution of the model."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0: off."""
    max_tokens: int = 0
    """The most new tokens. 0: as many as the model's length allows."""
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    ignore_eos: bool = False
    logprobs: bool = False
    repetition_penalty: float = 1.0
    n: int = 1
    """Completions per prompt."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    prompt: Prompt
    sampling: Sampling = field(default_factory=Sampling)


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion, or one piece of it when streamed. `finish_reason` is None until the last piece."""

    index: int
    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """One per token if requested, else empty. Natural logarithms, under the distribution that was sampled from."""
    text: str
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """What an engine yields for a request: completions (or pieces of them) and the tokenized prompt."""

    completions: tuple[Completion, ...]
    prompt_token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Generation:
    """Completions, and the id of the weights that made them."""

    completions: tuple[Completion, ...]
    prompt_token_ids: tuple[int, ...]
    policy_id: PolicyId
    duration: timedelta
