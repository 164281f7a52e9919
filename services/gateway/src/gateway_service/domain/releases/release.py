"""A release: the gradual move of a model's traffic from its champion to a candidate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gateway_service.domain.targets import VersionRef
from ratchet_kit.errors import FailedPrecondition, FieldViolation, InvalidArgument


class ReleaseState(StrEnum):
    PREPARING = "preparing"
    PROGRESSING = "progressing"
    SUCCEEDED = "succeeded"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"


@dataclass(frozen=True)
class Stage:
    """A share of traffic, held for at least `min_duration` and until the candidate answered `min_samples` requests."""

    percent: int
    min_duration: timedelta
    min_samples: int


DEFAULT_STAGES = tuple(Stage(percent, timedelta(minutes=5), 50) for percent in (1, 5, 25, 50, 100))


@dataclass(frozen=True)
class Bounds:
    """How much worse than the baseline a candidate may be.

    Error rates and quality scores are in [0, 1] and compared by difference, p95 latencies by ratio.
    """

    max_error_rate_increase: float = 0.02
    max_latency_ratio: float = 2.0
    max_quality_drop: float = 0.05


@dataclass(frozen=True)
class ReleaseSpec:
    """What the user asks for. `gate_id`: the passed gate that lets the candidate replace the champion."""

    model: str
    candidate: int
    gate_id: str
    stages: tuple[Stage, ...] = DEFAULT_STAGES
    bounds: Bounds = Bounds()

    def check(self) -> None:
        """Raises InvalidArgument that names every field at fault."""
        faults = [*self._identity_faults(), *_stage_faults(self.stages), *_bounds_faults(self.bounds)]
        if faults:
            raise InvalidArgument("; ".join(f"{fault.field}: {fault.description}" for fault in faults), faults)

    def _identity_faults(self) -> Sequence[FieldViolation]:
        faults = []
        if not self.model:
            faults.append(FieldViolation("spec.model", "must name a model"))
        if self.candidate < 1:
            faults.append(FieldViolation("spec.candidate", "must be a version number, 1 or more"))
        return faults


def _stage_faults(stages: Sequence[Stage]) -> Sequence[FieldViolation]:
    faults = []
    previous = 0
    for index, stage in enumerate(stages):
        where = f"spec.stages[{index}]"
        if not previous < stage.percent <= 100:
            faults.append(FieldViolation(f"{where}.percent", f"must be above {previous} and at most 100"))
        if stage.min_duration < timedelta(0):
            faults.append(FieldViolation(f"{where}.min_duration", "must not be negative"))
        if stage.min_samples < 0:
            faults.append(FieldViolation(f"{where}.min_samples", "must not be negative"))
        previous = max(previous, stage.percent)
    if not stages or stages[-1].percent != 100:
        faults.append(FieldViolation("spec.stages", "must end at 100 percent"))
    return faults


def _bounds_faults(bounds: Bounds) -> Sequence[FieldViolation]:
    faults = []
    if not 0 < bounds.max_error_rate_increase <= 1:
        faults.append(FieldViolation("spec.bounds.max_error_rate_increase", "must be in (0, 1]"))
    if not bounds.max_latency_ratio >= 1:
        faults.append(FieldViolation("spec.bounds.max_latency_ratio", "must be at least 1"))
    if not 0 < bounds.max_quality_drop <= 1:
        faults.append(FieldViolation("spec.bounds.max_quality_drop", "must be in (0, 1]"))
    return faults


@dataclass(frozen=True)
class ReleaseEvent:
    """A change of the candidate's share, and why."""

    time: datetime
    percent: int
    reason: str


@dataclass(frozen=True)
class Release:
    """`revision` grows with each stored change: a writer that saw an older one is refused by the store.

    `retired_at`: when the engine of the side that lost was unloaded; None until then.
    """

    id: str
    request_id: str
    spec: ReleaseSpec
    baseline: int
    create_time: datetime
    state: ReleaseState = ReleaseState.PREPARING
    stage: int = 0
    stage_start: datetime | None = None
    events: tuple[ReleaseEvent, ...] = ()
    error: str = ""
    end_time: datetime | None = None
    retired_at: datetime | None = None
    revision: int = 0

    @property
    def active(self) -> bool:
        return self.state in (ReleaseState.PREPARING, ReleaseState.PROGRESSING)

    @property
    def percent(self) -> int:
        """The candidate's share of the traffic that this release decides about."""
        match self.state:
            case ReleaseState.PROGRESSING:
                return self.spec.stages[self.stage].percent
            case ReleaseState.SUCCEEDED:
                return 100
            case _:
                return 0

    @property
    def candidate_ref(self) -> VersionRef:
        return VersionRef(self.spec.model, self.spec.candidate)

    @property
    def baseline_ref(self) -> VersionRef:
        return VersionRef(self.spec.model, self.baseline)

    @property
    def loser(self) -> VersionRef:
        """The version that no longer receives this release's traffic once it ended."""
        return self.baseline_ref if self.state is ReleaseState.SUCCEEDED else self.candidate_ref

    def begin(self, now: datetime) -> "Release":
        """The candidate is loaded: its first share of traffic."""
        self._require(ReleaseState.PREPARING, "begin")
        return self._at_stage(0, now, "the candidate's engine is ready")

    def advance(self, now: datetime, reason: str) -> "Release":
        """To the next stage. Raises FailedPrecondition at the last one, which succeeds instead."""
        self._require(ReleaseState.PROGRESSING, "advance")
        if self.last_stage:
            raise FailedPrecondition(f"release {self.id} is at its last stage")
        return self._at_stage(self.stage + 1, now, reason)

    def succeed(self, now: datetime, reason: str) -> "Release":
        self._require(ReleaseState.PROGRESSING, "succeed")
        if not self.last_stage:
            raise FailedPrecondition(f"release {self.id} is at stage {self.stage}, not at its last")
        return self._ended(ReleaseState.SUCCEEDED, now, reason)

    def roll_back(self, now: datetime, reason: str) -> "Release":
        """All traffic back to the baseline."""
        if not self.active:
            raise FailedPrecondition(f"release {self.id} has ended: {self.state}")
        return self._ended(ReleaseState.ROLLED_BACK, now, reason)

    def fail(self, now: datetime, error: str) -> "Release":
        """The platform could not carry it out; says nothing about the candidate."""
        if not self.active:
            raise FailedPrecondition(f"release {self.id} has ended: {self.state}")
        return replace(self._ended(ReleaseState.FAILED, now, error), error=error)

    def retire(self, now: datetime) -> "Release":
        """The loser's engine is gone: nothing is left to do."""
        if self.active:
            raise FailedPrecondition(f"release {self.id} is under way")
        return replace(self, retired_at=now)

    @property
    def last_stage(self) -> bool:
        return self.stage == len(self.spec.stages) - 1

    def _require(self, state: ReleaseState, action: str) -> None:
        if self.state is not state:
            raise FailedPrecondition(f"release {self.id} is {self.state}: it cannot {action}")

    def _at_stage(self, stage: int, now: datetime, reason: str) -> "Release":
        moved = replace(self, state=ReleaseState.PROGRESSING, stage=stage, stage_start=now)
        return moved._noted(now, reason)

    def _ended(self, state: ReleaseState, now: datetime, reason: str) -> "Release":
        return replace(self, state=state, end_time=now)._noted(now, reason)

    def _noted(self, now: datetime, reason: str) -> "Release":
        return replace(self, events=(*self.events, ReleaseEvent(now, self.percent, reason)))
