"""What serving needs from outside: the rollout service."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway_service.domain.serving.generation import Delta, Generation, Prompt, Sampling


class PolicyState(StrEnum):
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    UNLOADING = "unloading"


@dataclass(frozen=True, slots=True)
class Policy:
    """A version in the rollout service."""

    name: str
    """The name that it was loaded under: "starter@2"."""
    state: PolicyState
    policy_id: str = ""
    error: str = ""
    """The reason, when it FAILED."""


class PolicyEngine(Protocol):
    """Loads policies and generates with them.

    Every method raises Unavailable when the engine cannot be reached and DeadlineExceeded when it does not answer.
    """

    async def load(self, name: str, source: str, policy_id: str) -> Policy:
        """Starts to load weights that must hash to `policy_id`, and returns at once.

        Raises ResourceExhausted when no more fit, AlreadyExists when the name is taken, InvalidArgument for a source
        that is none.
        """
        ...

    async def get(self, name: str) -> Policy:
        """Raises NotFound."""
        ...

    async def unload(self, name: str) -> None:
        """Returns when nothing of it is left. Raises NotFound."""
        ...

    async def generate(self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling) -> Generation:
        """Raises NotFound when no policy has the name, FailedPrecondition when it is not ready or has other weights,
        InvalidArgument for a prompt or sampling that it refuses, ResourceExhausted when it is overloaded."""
        ...

    def stream(self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta]:
        """Like generate, piece by piece; raises while iterated. Closed early, it stops the generation."""
        ...
