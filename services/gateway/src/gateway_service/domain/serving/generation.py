"""What a policy is asked for, and what it generates."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ChatTurn:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    turns: tuple[ChatTurn, ...]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    text: str


Prompt = ChatPrompt | TextPrompt


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. None leaves a choice to the rollout service."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int = 0
    """0 is off."""
    max_tokens: int = 0
    """0: up to the length that the model allows."""
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    ignore_eos: bool = False
    logprobs: bool = False
    repetition_penalty: float | None = None
    n: int = 1
    """Completions per prompt."""


class FinishReason(StrEnum):
    UNFINISHED = "unfinished"
    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion of the prompt; in a stream, its new part."""

    index: int
    text: str
    finish_reason: FinishReason = FinishReason.UNFINISHED
    token_ids: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    """Natural logarithms, one per token; empty unless requested."""


@dataclass(frozen=True, slots=True)
class Generation:
    """All completions of one prompt, and the weights that made them."""

    choices: tuple[Choice, ...]
    policy_id: str
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed generation."""

    choice: Choice
    policy_id: str
    prompt_tokens: int = 0
    """Set in the first piece only, else 0."""
