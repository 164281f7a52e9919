"""A policy: a set of weights loaded under a name, and the states it goes through."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import NewType

from ratchet_kit.errors import FailedPrecondition, Unavailable

PolicyName = NewType("PolicyName", str)
PolicyId = NewType("PolicyId", str)
"""`sha256:<hex>` over the content of the weights; see `ratchet_kit.policy_id`."""


class State(Enum):
    """LOADING -> READY -> UNLOADING; any of the first two may fail, and a dead engine goes back to LOADING."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    UNLOADING = "unloading"


@dataclass(frozen=True)
class EngineOptions:
    """What a caller may choose about the engine; a zero or "auto" leaves it to the service."""

    dtype: str = "auto"
    max_model_len: int = 0
    """Prompt plus completion, in tokens; 0 means what the model's config says."""
    max_num_seqs: int = 0
    """Sequences decoded together at most."""
    kv_cache_mib: int = 0
    tensor_parallel_size: int = 0


@dataclass(frozen=True)
class EngineInfo:
    """What an engine turned out to be once it runs."""

    dtype: str
    max_model_len: int


@dataclass(frozen=True)
class Policy:
    """One policy under its name. Changes are methods that return the new value and refuse what is not allowed."""

    name: PolicyName
    source: str
    """The folder or fsspec URL it was loaded from."""
    request_id: str
    created: datetime
    options: EngineOptions = field(default_factory=EngineOptions)
    expected_policy_id: PolicyId | None = None
    state: State = State.LOADING
    policy_id: PolicyId | None = None
    """The weights that are served, or that a restarted engine will serve. None until first loaded."""
    engine: EngineInfo | None = None
    error: str = ""
    ready_at: datetime | None = None
    weight_updates: int = 0

    def ready(self, policy_id: PolicyId, engine: EngineInfo, now: datetime) -> "Policy":
        """The engine runs and shows these weights.

        Raises FailedPrecondition unless LOADING.
        """
        self._require(State.LOADING, "become ready")
        return replace(self, state=State.READY, policy_id=policy_id, engine=engine, error="", ready_at=now)

    def restarting(self, reason: str) -> "Policy":
        """The engine died; it is started again with the weights it had.

        Raises FailedPrecondition unless LOADING or READY.
        """
        if self.state not in (State.LOADING, State.READY):
            raise FailedPrecondition(f"policy {self.name} is {self.state.value} and cannot be restarted")
        return replace(self, state=State.LOADING, error=f"{reason}; it is being restarted", ready_at=None)

    def failed(self, error: str) -> "Policy":
        """The policy cannot be served; `error` says why. It stays listed until it is unloaded or loaded anew."""
        return replace(self, state=State.FAILED, error=error, ready_at=None)

    def updated(self, policy_id: PolicyId) -> "Policy":
        """The weights were replaced and proven.

        Raises FailedPrecondition unless READY.
        """
        self._require(State.READY, "take new weights")
        return replace(self, policy_id=policy_id, weight_updates=self.weight_updates + 1)

    def unloading(self) -> "Policy":
        """The engine is being stopped."""
        return replace(self, state=State.UNLOADING, ready_at=None)

    def serving_id(self) -> PolicyId:
        """The id of the weights that answer requests now.

        Raises Unavailable while loading or restarting (worth a retry), FailedPrecondition when failed or unloading.
        """
        if self.state is State.LOADING:
            raise Unavailable(f"policy {self.name} is loading" + (f": {self.error}" if self.error else ""))
        if self.state is not State.READY or self.policy_id is None:
            reason = f": {self.error}" if self.error else ""
            raise FailedPrecondition(f"policy {self.name} is {self.state.value}{reason}")
        return self.policy_id

    def _require(self, state: State, what: str) -> None:
        if self.state is not state:
            raise FailedPrecondition(f"policy {self.name} is {self.state.value} and cannot {what}")
