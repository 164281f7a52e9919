"""What evaluations need from outside."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from eval_service.domain.evaluation import Evaluation, Progress, ResolvedModel, Sample
from eval_service.domain.spec import ProblemSetRef
from eval_service.domain.statistics import Tally
from ratchet_kit.idempotency import Request
from ratchet_kit.names import AnyModel
from ratchet_policies import Sampling
from ratchet_problems import Message, Problem


@dataclass(frozen=True, slots=True)
class SampleKey:
    problem_id: str
    index: int


class EvaluationStore(Protocol):
    """Evaluations and their samples. Any method raises Unavailable when the database cannot be reached."""

    async def create(self, evaluation: Evaluation, request: Request) -> Evaluation:
        """Stores it, or returns the one that was stored under the request before.

        Raises AlreadyExists when another one was asked for under the request's id.
        """
        ...

    async def find(self, request: Request) -> Evaluation | None:
        """The evaluation of the request. Raises AlreadyExists as `create` does."""
        ...

    async def get(self, id: str) -> Evaluation:
        """Raises NotFound."""
        ...

    async def page(self, limit: int, after: str | None) -> Sequence[Evaluation]:
        """Newest first; `after` is the last id already seen."""
        ...

    async def waiting(self, now: datetime) -> Sequence[Evaluation]:
        """Those that have not ended and that no living worker holds, oldest first."""
        ...

    async def change(self, id: str, change: Callable[[Evaluation], Evaluation]) -> Evaluation:
        """Reads it, applies the change and writes the result, with nobody in between.

        Raises NotFound, and whatever `change` raises; nothing is written then.
        """
        ...

    async def delete(self, id: str) -> None:
        """With its samples. No error when it is not there."""
        ...

    async def add_sample(self, id: str, sample: Sample) -> None:
        """Stores a sample; one that is there already stays as it is."""
        ...

    async def sample_keys(self, id: str) -> frozenset[SampleKey]: ...

    async def sample_page(self, id: str, limit: int, after: SampleKey | None) -> Sequence[Sample]:
        """By problem and index."""
        ...

    async def progress(self, ids: Sequence[str]) -> Mapping[str, Progress]:
        """How far these evaluations are, by id."""
        ...

    async def tallies(self, id: str) -> Mapping[str, Tally]:
        """By problem id."""
        ...


@dataclass(frozen=True, slots=True)
class ProblemSet:
    problems: Sequence[Problem]
    """At least one."""
    digest: str


class ProblemSource(Protocol):
    async def check(self, ref: ProblemSetRef) -> None:
        """Raises InvalidArgument when there is no such set. Quick: what takes long is left to `load`."""
        ...

    async def load(self, ref: ProblemSetRef) -> ProblemSet:
        """Raises InvalidArgument."""
        ...


class ModelSource(Protocol):
    """registry-service."""

    async def resolve(self, ref: AnyModel) -> ResolvedModel:
        """Raises NotFound, Unavailable."""
        ...


class LoadedPolicy(Protocol):
    """Weights that can be sampled from."""

    @property
    def policy_id(self) -> str: ...

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> str:
        """The next message of the chat, surely from the weights `policy_id`.

        Raises Unavailable, ResourceExhausted, DeadlineExceeded (worth another try); NotFound, FailedPrecondition (the
        policy is gone, or holds other weights now); InvalidArgument (the chat does not fit the model).
        """
        ...


class PolicyHost(Protocol):
    """rollout-service."""

    def open(self, model: ResolvedModel, holder: str) -> AbstractAsyncContextManager[LoadedPolicy]:
        """The model, loaded: by itself, or as what is served already. At the end, what was loaded for it is unloaded.

        `holder` names who it is for; the same holder finds what it left behind when it was killed.
        Raises ResourceExhausted when there is no room, FailedPrecondition when the weights cannot be loaded, DataLoss
        when they are not those expected, InvalidArgument, DeadlineExceeded, Unavailable.
        """
        ...

    async def holders(self) -> Sequence[str]:
        """Whom policies were loaded for that are still there. Raises Unavailable."""
        ...

    async def close(self, holder: str) -> None:
        """Unloads what was loaded for the holder. No error when there is nothing. Raises Unavailable."""
        ...


class Meter(Protocol):
    """Counts what happens, for those who watch the service."""

    def sampled(self, verdict: str) -> None: ...

    def retried(self, fault: str) -> None:
        """A platform fault, by the name of its error."""
        ...

    def ended(self, evaluation: Evaluation) -> None: ...
