"""Generation: requests and what comes back. Prompts, sampling and completions are those of libs/policies."""

from dataclasses import dataclass, field
from datetime import timedelta

from ratchet_kit.work import Priority
from ratchet_policies import Completion, Echo, Prompt, Sampling
from rollout_service.domain.policy import PolicyId


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    prompt: Prompt
    sampling: Sampling = field(default_factory=Sampling)
    priority: Priority = Priority.NORMAL
    """A low one is decoded where the others leave room."""


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """What an engine yields for a request: completions (or pieces of them) and the tokenized prompt."""

    completions: tuple[Completion, ...]
    prompt_token_ids: tuple[int, ...]
    echo: Echo | None = None
    """In the first output, when it was asked for."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Completions, and the id of the weights that made them."""

    completions: tuple[Completion, ...]
    prompt_token_ids: tuple[int, ...]
    policy_id: PolicyId
    duration: timedelta
    echo: Echo | None = None
