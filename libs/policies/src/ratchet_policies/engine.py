"""The interface of rollout-service for loading and generating."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from ratchet_kit.work import Priority
from ratchet_policies.generation import Delta, Generation, Prompt, Sampling
from ratchet_policies.policy import Policy, PolicySpec


class PolicyEngine(Protocol):
    """Loads policies and generates with them.

    Every method raises Unavailable when the engine cannot be reached and DeadlineExceeded when it does not answer.
    """

    async def load(self, spec: PolicySpec) -> Policy:
        """Starts to load it, and returns at once. Loading fails when the weights are not `spec.policy_id`.

        Raises ResourceExhausted when no more fit, AlreadyExists when the name is taken, InvalidArgument for an
        invalid source.
        """
        ...

    async def get(self, name: str) -> Policy:
        """Raises NotFound."""
        ...

    async def all(self) -> Sequence[Policy]: ...

    async def unload(self, name: str) -> None:
        """Returns when nothing of it is left. Raises NotFound."""
        ...

    async def generate(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> Generation:
        """Completions that were surely made by the weights `policy_id`. With low `priority`, where requests of others
        leave room.

        Raises NotFound when no policy has the name, FailedPrecondition when it is not ready or has other weights,
        InvalidArgument for a prompt or sampling that it refuses, ResourceExhausted when it is overloaded.
        """
        ...

    def stream(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        """Like generate, piece by piece; raises while iterated. Closed early, it stops the generation."""
        ...
