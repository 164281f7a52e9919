"""What the gateway needs from outside."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from gateway_service.domain.completions import Delta, Generation, Prompt, Sampling
from gateway_service.domain.decisions import Traffic
from gateway_service.domain.releases import Release
from gateway_service.domain.targets import VersionRef
from gateway_service.domain.traffic import CompletionRecord, ProblemRef

if TYPE_CHECKING:
    from gateway_service.domain.keys import ApiKey


class PolicyState(StrEnum):
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    UNLOADING = "unloading"


@dataclass(frozen=True)
class Policy:
    """A version in the rollout service, under the name it was loaded by. `error` says why it FAILED."""

    name: str
    state: PolicyState
    policy_id: str = ""
    error: str = ""


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


@dataclass(frozen=True)
class RegisteredModel:
    name: str
    create_time: datetime
    champion: int | None


@dataclass(frozen=True)
class RegisteredVersion:
    """`source`: where its weights lie. `policy_id`: their content hash."""

    ref: VersionRef
    source: str
    policy_id: str
    create_time: datetime


@dataclass(frozen=True)
class GateResult:
    """The registry's comparison of a candidate with the champion of then."""

    id: str
    model: str
    candidate: int
    champion: int
    passed: bool
    reason: str


class ModelRegistry(Protocol):
    """Models, versions and their aliases. Every method raises Unavailable when the registry cannot be reached."""

    async def models(self) -> Sequence[RegisteredModel]: ...

    async def model(self, name: str) -> RegisteredModel:
        """Raises NotFound."""
        ...

    async def version(self, ref: VersionRef) -> RegisteredVersion:
        """Raises NotFound."""
        ...

    async def resolve(self, model: str, alias: str) -> RegisteredVersion:
        """The version that an alias points at. Raises NotFound."""
        ...

    async def gate(self, gate_id: str) -> GateResult:
        """Raises NotFound."""
        ...

    async def promote(self, ref: VersionRef, gate_id: str, reason: str) -> None:
        """Makes a version the champion. Raises FailedPrecondition when the gate does not allow it."""
        ...


class ReleaseStore(Protocol):
    """Releases, and the only truth about them."""

    async def add(self, release: Release) -> None:
        """Raises AlreadyExists when its request id is taken, FailedPrecondition when its model has an active one."""
        ...

    async def get(self, release_id: str) -> Release:
        """Raises NotFound."""
        ...

    async def by_request(self, request_id: str) -> Release | None: ...

    async def active(self, model: str) -> Release | None:
        """The release under way of a model: at most one."""
        ...

    async def unfinished(self) -> Sequence[Release]:
        """Those with work left: active ones, and ended ones whose loser is still loaded."""
        ...

    async def list(self, model: str, limit: int, after: str | None) -> Sequence[Release]:
        """Newest first, those older than the release `after`; of all models when `model` is empty."""
        ...

    async def save(self, release: Release) -> Release:
        """Stores it and returns it with its new revision. Raises Aborted unless the stored revision is its own."""
        ...


class CompletionLog(Protocol):
    """The stored request log."""

    async def append(self, records: Sequence[CompletionRecord]) -> None: ...

    async def get(self, completion_id: str) -> CompletionRecord:
        """Raises NotFound."""
        ...

    async def set_score(self, completion_id: str, score: float, problem: ProblemRef | None) -> None:
        """Also drops the kept texts. The last score stands. Raises NotFound."""
        ...

    async def traffic(self, release: Release, reference_from: datetime) -> Traffic:
        """The arms of the release's present stage, and the baseline's version from `reference_from` on.

        Latencies are those of the latest 10,000 answers of an arm.
        """
        ...

    async def prune(self, texts_before: datetime, records_before: datetime) -> None:
        """Drops texts and whole records older than these."""
        ...


class KeyStore(Protocol):
    """Stored API keys."""

    async def add(self, key: "ApiKey") -> None:
        """Raises AlreadyExists when its digest is taken."""
        ...

    async def get(self, key_id: str) -> "ApiKey":
        """Raises NotFound."""
        ...

    async def by_digest(self, digest: str) -> "ApiKey | None": ...

    async def list(self) -> "Sequence[ApiKey]":
        """All, revoked ones too, oldest first."""
        ...

    async def save(self, key: "ApiKey") -> None:
        """Raises NotFound."""
        ...


class Grader(Protocol):
    """Grades completions by the tests of a problem."""

    async def grade(self, problem: ProblemRef, texts: Sequence[str]) -> Sequence[float]:
        """A score in [0, 1] for each text. Raises NotFound for an unknown problem, Unavailable when the sandbox
        cannot say."""
        ...
