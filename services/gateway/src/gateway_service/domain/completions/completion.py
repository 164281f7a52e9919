"""A completion request and its answer."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from ratchet_kit.names import AliasRef, BareModel, VersionRef
from ratchet_policies import Delta, Generation, Prompt, Sampling

Target: TypeAlias = BareModel | VersionRef | AliasRef
"""A model by its name alone stands for its champion, or for the version that its present release chooses."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    target: Target
    prompt: Prompt
    sampling: Sampling = field(default_factory=Sampling)
    routing_key: str = ""
    """Requests with the same key stay with one version during a release. Empty: each request is placed by chance."""
    session: str = ""
    """What experiments by sessions assign; empty: the request is not in those."""


@dataclass(frozen=True, slots=True)
class CompletionResponse:
    """A generation and the version that made it."""

    id: str
    version: VersionRef
    generation: Generation
    arm: str = ""
    """See `Route.arm_name`."""
    engine_time: timedelta = timedelta(0)
    """What the gateway waited for engines: the rest of the time is its own."""
    is_cached: bool = False
    """It was made for an earlier request."""

    @property
    def completion_tokens(self) -> int:
        return sum(len(completion.token_ids) for completion in self.generation.completions)


@dataclass(frozen=True, slots=True)
class ResponseDelta:
    """A piece of a streamed completion."""

    id: str
    version: VersionRef
    delta: Delta
    arm: str = ""
    engine_time: timedelta = timedelta(0)
    """Until the first piece."""
