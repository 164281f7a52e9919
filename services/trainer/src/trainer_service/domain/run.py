"""A training run and what may become of it.

QUEUED -> STARTING -> RUNNING -> SUCCEEDED      any of the first three -> FAILED, CANCELLED
              ^__________|  resume: the job died, the next attempt goes on from its last checkpoint
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NewType

from ratchet_kit.errors import FailedPrecondition
from trainer_service.domain.spec import RunSpec

RunId = NewType("RunId", str)


class State(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


UNFINISHED = tuple(state for state in State if not state.is_final)
_STARTED = (State.STARTING, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Step:
    """What a step measured."""

    number: int
    metrics: Mapping[str, float]
    policy_id: str
    """The weights after it."""
    time: datetime
    attempt: int
    platform_faults: int = 0
    """Samples masked in it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An exported model."""

    step: int
    uri: str
    """Its folder."""
    policy_id: str
    time: datetime
    validation_score: float | None = None
    """Higher is better; None when it was not validated."""


def best(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one that validated best, the later of equals; where none was validated, the last."""
    validated = [c for c in checkpoints if c.validation_score is not None]
    if validated:
        return max(validated, key=lambda c: (c.validation_score or 0.0, c.step))
    return max(checkpoints, key=lambda c: c.step, default=None)


@dataclass(frozen=True, slots=True)
class Run:
    id: RunId
    spec: RunSpec
    state: State
    create_time: datetime
    update_time: datetime
    """The last change, so also the last report of the job."""
    error: str = ""
    step: int = 0
    attempt: int = 0
    """Counts the starts of the job; reports of an older one are refused."""
    platform_faults: int = 0
    version: str = ""
    best_checkpoint: Checkpoint | None = None
    start_time: datetime | None = None
    trained_time: datetime | None = None
    """When the job had done all its steps. The run goes on until its best checkpoint is where the spec wants it."""
    end_time: datetime | None = None

    @classmethod
    def create(cls, id: RunId, spec: RunSpec, now: datetime) -> "Run":
        return cls(id=id, spec=spec, state=State.QUEUED, create_time=now, update_time=now)

    def start(self, now: datetime) -> "Run":
        """The first job of the run is about to be submitted."""
        self._require("start", State.QUEUED)
        return replace(self, state=State.STARTING, attempt=1, start_time=now, update_time=now)

    def begin(self, attempt: int, now: datetime) -> "Run":
        """The job of this attempt is up. Said twice, it changes nothing."""
        self._require_attempt(attempt)
        self._require("begin", *_STARTED)
        return replace(self, state=State.RUNNING, update_time=now)

    def progress(self, step: Step, replaced: Step | None, now: datetime) -> "Run":
        """A step is done. `replaced` is what its number held before: the same report again, or an older attempt's.

        Faults count once for each attempt that met them.
        """
        self._require_attempt(step.attempt)
        self._require("progress", State.RUNNING)
        counted = replaced.platform_faults if replaced and replaced.attempt == step.attempt else 0
        faults = self.platform_faults + step.platform_faults - counted
        return replace(self, step=step.number, platform_faults=faults, update_time=now)

    def checkpointed(self, attempt: int, checkpoints: Sequence[Checkpoint], now: datetime) -> "Run":
        """A checkpoint was added to the run's `checkpoints`."""
        self._require_attempt(attempt)
        self._require("checkpoint", State.RUNNING)
        return replace(self, best_checkpoint=best(checkpoints), update_time=now)

    def trained(self, attempt: int, now: datetime) -> "Run":
        """The job has done all its steps."""
        self._require_attempt(attempt)
        self._require("finish", State.RUNNING)
        if self.step < self.spec.steps:
            return self.fail(f"the job ended after {self.step} of {self.spec.steps} steps", now)
        return replace(self, trained_time=self.trained_time or now, update_time=now)

    def broken(self, attempt: int, error: str, now: datetime) -> "Run":
        """The job says that it cannot go on, and that another attempt could not either."""
        self._require_attempt(attempt)
        return self.fail(error, now)

    def resume(self, attempt: int, now: datetime) -> "Run":
        """The job of `attempt` is gone before its end: the next one may start."""
        self._require_attempt(attempt)
        self._require("resume", *_STARTED)
        if self.trained_time:
            raise FailedPrecondition(f"run {self.id} has done all its steps")
        return replace(self, state=State.STARTING, attempt=self.attempt + 1, update_time=now)

    def succeed(self, version: str, now: datetime) -> "Run":
        """All is done. `version`: what the registry made of the best checkpoint, empty when that was not asked for."""
        self._require("succeed", State.RUNNING)
        if not self.trained_time:
            raise FailedPrecondition(f"run {self.id} has steps to do")
        return replace(self, state=State.SUCCEEDED, version=version, end_time=now, update_time=now)

    def fail(self, error: str, now: datetime) -> "Run":
        """`error`: one sentence for the user."""
        self._require("fail", *UNFINISHED)
        return replace(self, state=State.FAILED, error=error, end_time=now, update_time=now)

    def cancel(self, now: datetime) -> "Run":
        """Cancelled once is cancelled: again it changes nothing."""
        if self.state is State.CANCELLED:
            return self
        self._require("cancel", *UNFINISHED)
        return replace(self, state=State.CANCELLED, end_time=now, update_time=now)

    def _require(self, action: str, *states: State) -> None:
        if self.state not in states:
            raise FailedPrecondition(f"run {self.id} is {self.state.name}: it cannot {action}")

    def _require_attempt(self, attempt: int) -> None:
        if attempt != self.attempt:
            raise FailedPrecondition(f"run {self.id} is at attempt {self.attempt}: attempt {attempt} is stale")
