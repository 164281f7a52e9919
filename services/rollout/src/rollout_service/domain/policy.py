"""A policy: a set of weights loaded under a name, and the states it goes through."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NewType

from ratchet_kit.errors import FailedPrecondition, Failure, RatchetError, Unavailable
from ratchet_kit.idempotency import Request
from ratchet_policies import EngineUsage, Purpose

PolicyName = NewType("PolicyName", str)
PolicyId = NewType("PolicyId", str)
"""`sha256:<hex>` over the content of the weights; see `ratchet_kit.policy_id`."""


class State(StrEnum):
    """LOADING -> READY -> UNLOADING. The first two may become FAILED. When the engine dies, READY becomes LOADING."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    UNLOADING = "unloading"


class Dtype(StrEnum):
    """What an engine computes in."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a caller may choose for the engine. None leaves the choice to the service."""

    dtype: Dtype | None = None
    max_model_len: int | None = None
    """Prompt plus completion, in tokens. None: as the config of the model says."""
    max_num_seqs: int | None = None
    """The most sequences that are decoded together."""
    kv_cache_bytes: int | None = None
    tensor_parallel_size: int | None = None
    sleeps: bool = False
    """It can be put to sleep."""
    model: str = ""
    """Model of the registry whose settings it has; empty: the policy's name up to "@"."""


class Library(StrEnum):
    """The library that generates."""

    VLLM = "vLLM"
    TRANSFORMERS = "transformers"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Properties of a running engine."""

    dtype: Dtype
    max_model_len: int
    has_chat_template: bool = False
    kv_cache_tokens: int = 0
    """Whose keys and values it can hold at a time: so many tokens of prompts and completions are under way at most."""
    library: Library = Library.VLLM


@dataclass(frozen=True, slots=True)
class Death:
    """The end of an engine that nobody asked for."""

    reason: str
    hung: bool = False
    """It was ended, since it neither answered nor computed."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy and its state. A change is a method that returns the new value, or raises when it is not allowed."""

    name: PolicyName
    source: str
    """The folder or fsspec URL it was loaded from."""
    request: Request
    """The request that loaded it."""
    create_time: datetime
    options: EngineOptions = field(default_factory=EngineOptions)
    expected_policy_id: PolicyId | None = None
    state: State = State.LOADING
    policy_id: PolicyId | None = None
    """The weights that are served, or that will be served after a restart. None until the first load."""
    engine: EngineInfo | None = None
    failure: Failure | None = None
    """Set when FAILED."""
    restart_reason: str = ""
    """Why it is LOADING again."""
    ready_time: datetime | None = None
    weight_updates: int = 0
    devices: tuple[str, ...] = ()
    """The GPUs that its engine is on; none on CPU."""
    settings_id: str = ""
    """Of the model that was loaded last: its config, tokenizer and chat template."""
    purpose: Purpose = Purpose.SERVING
    usage: EngineUsage = field(default_factory=EngineUsage)
    """Since it was loaded."""

    def ready(self, policy_id: PolicyId, engine: EngineInfo, now: datetime, settings_id: str = "") -> "Policy":
        """The engine runs with these weights and settings.

        Raises FailedPrecondition unless LOADING.
        """
        self._require(State.LOADING, "become ready")
        return replace(
            self,
            state=State.READY,
            policy_id=policy_id,
            settings_id=settings_id,
            engine=engine,
            restart_reason="",
            ready_time=now,
        )

    def restarting(self, reason: str) -> "Policy":
        """The engine died and is being restarted with the weights it had.

        Raises FailedPrecondition unless LOADING or READY.
        """
        if self.state not in (State.LOADING, State.READY):
            raise FailedPrecondition(f"policy {self.name} is {self.state} and cannot be restarted")
        return replace(self, state=State.LOADING, restart_reason=reason, ready_time=None)

    def failed(self, error: RatchetError) -> "Policy":
        """The policy cannot be served. It stays listed until it is unloaded or loaded again."""
        return replace(self, state=State.FAILED, failure=Failure.of(error), ready_time=None)

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
        if self.state is State.LOADING and self.restart_reason:
            raise Unavailable(f"policy {self.name} is being restarted: {self.restart_reason}")
        if self.state is State.LOADING:
            raise Unavailable(f"policy {self.name} is loading")
        if self.state is not State.READY or self.policy_id is None:
            reason = f": {self.failure.message}" if self.failure else ""
            raise FailedPrecondition(f"policy {self.name} is {self.state}{reason}")
        return self.policy_id

    def _require(self, state: State, change: str) -> None:
        if self.state is not state:
            raise FailedPrecondition(f"policy {self.name} is {self.state} and cannot {change}")
