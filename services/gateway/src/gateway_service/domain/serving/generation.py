"""What is asked of a policy and what comes back."""

from dataclasses import dataclass, field
from enum import StrEnum

from gateway_service.domain.targets import Target, VersionRef


@dataclass(frozen=True)
class ChatTurn:
    role: str
    content: str


@dataclass(frozen=True)
class ChatPrompt:
    turns: tuple[ChatTurn, ...]


@dataclass(frozen=True)
class TextPrompt:
    text: str


Prompt = ChatPrompt | TextPrompt


@dataclass(frozen=True)
class Sampling:
    """How to draw tokens. None leaves a choice to the rollout service; `max_tokens` 0 is up to the model's length."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int = 0
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    ignore_eos: bool = False
    logprobs: bool = False
    repetition_penalty: float | None = None
    n: int = 1


class FinishReason(StrEnum):
    UNFINISHED = "unfinished"
    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Choice:
    """One completion of the prompt, or in a stream what is new of it. `log_probs`: natural logs, one per token."""

    index: int
    text: str
    finish_reason: FinishReason = FinishReason.UNFINISHED
    token_ids: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Generation:
    """All completions of one prompt, and the weights that made them."""

    choices: tuple[Choice, ...]
    policy_id: str
    prompt_tokens: int


@dataclass(frozen=True)
class Delta:
    """A piece of a streamed generation. `prompt_tokens` is set on the first only, else 0."""

    choice: Choice
    policy_id: str
    prompt_tokens: int = 0


@dataclass(frozen=True)
class CompletionRequest:
    """`routing_key`: requests of one key stay with one version during a release; empty: each by itself."""

    target: Target
    prompt: Prompt
    sampling: Sampling = field(default_factory=Sampling)
    routing_key: str = ""


@dataclass(frozen=True)
class Answer:
    """A generation, and who gave it."""

    id: str
    version: VersionRef
    generation: Generation

    @property
    def completion_tokens(self) -> int:
        return sum(len(choice.token_ids) for choice in self.generation.choices)


@dataclass(frozen=True)
class AnswerDelta:
    id: str
    version: VersionRef
    delta: Delta
