"""A policy: a set of weights loaded under a name, and the states it goes through."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NewType

from ratchet_kit.errors import FailedPrecondition, Unavailable

PolicyName = NewType("PolicyName", str)
PolicyId = NewType("PolicyId", str)
"""`sha256:<hex>` over the content of the weights; see `ratchet_kit.policy_id`."""


class State(StrEnum):
    """LOADING -> READY -> UNLOADING. The first two may become FAILED. When the engine dies, READY becomes LOADING."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    UNLOADING = "unloading"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a caller may choose for the engine. Zero, or "auto", leaves the choice to the service."""

    dtype: str = "auto"
    max_model_len: int = 0
    """Prompt plus completion, in tokens. 0: what the model's config says."""
    max_num_seqs: int = 0
    """The most sequences that are decoded together."""
    kv_cache_mib: int = 0
    tensor_parallel_size: int = 0


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Properties of a running engine."""

    dtype: str
    max_model_len: int


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy and its state. A change is a method that returns the new value, or raises when it is not allowed."""

    name: PolicyName
    source: str
    """The folder or fsspec URL it was loaded from."""
    request_id: str
    create_time: datetime
    options: EngineOptions = field(default_factory=EngineOptions)
    expected_policy_id: PolicyId | None = None
    state: State = State.LOADING
    policy_id: PolicyId | None = None
    """The weights that are served, or that will be served after a restart. None until the first load."""
    engine: EngineInfo | None = None
    error: str = ""
    ready_time: datetime | None = None
    weight_updates: int = 0

    def ready(self, policy_id: PolicyId, engine: EngineInfo, now: datetime) -> "Policy":
        """The engine runs with these weights.

        Raises FailedPrecondition unless LOADING.
        """
        self._require(State.LOADING, "become ready")
        return replace(self, state=State.READY, policy_id=policy_id, engine=engine, error="", ready_time=now)

    def restarting(self, reason: str) -> "Policy":
        """The engine died and is being restarted with the weights it had.

        Raises FailedPrecondition unless LOADING or READY.
        """
        if self.state not in (State.LOADING, State.READY):
            raise FailedPrecondition(f"policy {self.name} is {self.state.value} and cannot be restarted")
        return replace(self, state=State.LOADING, error=f"{reason}; it is being restarted", ready_time=None)

    def failed(self, error: str) -> "Policy":
        """The policy cannot be served, for the reason `error`. It stays listed until it is unloaded or loaded again."""
        return replace(self, state=State.FAILED, error=error, ready_time=None)

    def updated(self, policy_id: PolicyId) -> "Policy":
        """The engine now computes with other weights.

        Raises FailedPrecondition unless READY.
        """
        self._require(State.READY, "take new weights")
        return replace(self, policy_id=policy_id, weight_updates=self.weight_updates + 1)

    def unloading(self) -> "Policy":
        """The engine is being stopped."""
        return replace(self, state=State.UNLOADING, ready_time=None)

    def serving_id(self) -> PolicyId:
        """The id of the weights that are served now.

        Raises Unavailable while loading or restarting (worth a retry), FailedPrecondition when failed or unloading.
        """
        if self.state is State.LOADING:
            raise Unavailable(f"policy {self.name} is loading" + (f": {self.error}" if self.error else ""))
        if self.state is not State.READY or self.policy_id is None:
            reason = f": {self.error}" if self.error else ""
            raise FailedPrecondition(f"policy {self.name} is {self.state.value}{reason}")
        return self.policy_id

    def _require(self, state: State, change: str) -> None:
        if self.state is not state:
            raise FailedPrecondition(f"policy {self.name} is {self.state.value} and cannot {change}")
