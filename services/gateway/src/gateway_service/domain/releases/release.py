"""A release: the gradual move of a model's traffic from its champion to a candidate."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from ratchet_kit.errors import FailedPrecondition, Failure, RatchetError
from ratchet_kit.faults import Faults
from ratchet_kit.names import VersionRef, check_model_name, check_version_number


class State(StrEnum):
    PREPARING = "preparing"
    PROGRESSING = "progressing"
    SUCCEEDED = "succeeded"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Stage:
    """A share of traffic for the candidate, and how long it is held."""

    percent: int
    min_duration: timedelta
    """The stage lasts at least this long ..."""
    min_samples: int
    """... and until the candidate answered this many requests in it."""


MAX_STAGE_DURATION = timedelta(days=365)
"""Beyond it is a mistake, and soon more than protobuf's JSON can show."""
DEFAULT_STAGES = tuple(Stage(percent, timedelta(minutes=5), 50) for percent in (1, 5, 25, 50, 100))


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much worse than the baseline a candidate may be."""

    max_error_rate_increase: float = 0.02
    """The candidate's error rate minus the baseline's; both are in [0, 1]."""
    max_latency_ratio: float = 2.0
    """The candidate's p95 latency divided by the baseline's."""
    max_quality_drop: float = 0.05
    """The baseline's mean score minus the candidate's; both are in [0, 1]."""


@dataclass(frozen=True, slots=True)
class ReleaseSpec:
    """What the user requests."""

    candidate: VersionRef
    gate_id: str
    """The passed gate that lets the candidate replace the champion."""
    stages: tuple[Stage, ...] = DEFAULT_STAGES
    bounds: Bounds = Bounds()

    def check(self) -> None:
        """Raises InvalidArgument that names every field at fault."""
        faults = Faults()
        spec = faults.under("spec")
        candidate = spec.under("candidate")
        candidate.read("model", check_model_name, self.candidate.model)
        candidate.read("number", check_version_number, self.candidate.number)
        previous = 0
        for index, stage in enumerate(self.stages):
            of_stage = spec.under(f"stages[{index}]")
            of_stage.bounds("percent", stage.percent, above=previous, at_most=100)
            of_stage.bounds("min_duration", stage.min_duration, at_least=timedelta(0), at_most=MAX_STAGE_DURATION)
            of_stage.bounds("min_samples", stage.min_samples, at_least=0)
            previous = max(previous, stage.percent)
        spec.unless(self.stages and self.stages[-1].percent == 100, "stages", "must end at 100 percent")
        bounds = spec.under("bounds")
        bounds.bounds("max_error_rate_increase", self.bounds.max_error_rate_increase, at_least=0.0, at_most=1.0)
        bounds.bounds("max_latency_ratio", self.bounds.max_latency_ratio, at_least=1.0)
        bounds.bounds("max_quality_drop", self.bounds.max_quality_drop, at_least=0.0, at_most=1.0)
        faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class ReleaseEvent:
    """A change of the candidate's share."""

    create_time: datetime
    percent: int
    reason: str
    actor: str = ""
    """The id of the API key that asked for it; empty for what the gateway decided."""


@dataclass(frozen=True, slots=True)
class Release:
    """The states: PREPARING (the candidate is being loaded), PROGRESSING (it gets traffic), then one of SUCCEEDED,
    ROLLED_BACK and FAILED (the platform could not carry the release out)."""

    id: str
    spec: ReleaseSpec
    baseline: VersionRef
    """The champion when the release was created."""
    create_time: datetime
    state: State = State.PREPARING
    stage: int = 0
    stage_start_time: datetime | None = None
    events: tuple[ReleaseEvent, ...] = ()
    failure: Failure | None = None
    end_time: datetime | None = None
    retire_time: datetime | None = None
    """When the version that lost was unloaded."""
    actor: str = ""
    """The id of the API key that created it."""
    revision: int = 0
    """Grows with each stored change: the store refuses a writer that saw an older one."""

    @property
    def active(self) -> bool:
        return self.state in (State.PREPARING, State.PROGRESSING)

    @property
    def percent(self) -> int:
        """The candidate's share of the model's traffic."""
        match self.state:
            case State.PROGRESSING:
                return self.spec.stages[self.stage].percent
            case State.SUCCEEDED:
                return 100
            case _:
                return 0

    @property
    def model(self) -> str:
        return self.spec.candidate.model

    @property
    def candidate(self) -> VersionRef:
        return self.spec.candidate

    @property
    def loser(self) -> VersionRef:
        """The version that gets no traffic once the release has ended."""
        return self.baseline if self.state is State.SUCCEEDED else self.candidate

    def begin(self, now: datetime) -> "Release":
        """Gives the candidate, now loaded, its first share of traffic."""
        self._require(State.PREPARING, "begin")
        return self._at_stage(0, now, "the candidate's engine is ready")

    def advance(self, now: datetime, reason: str) -> "Release":
        """To the next stage. Raises FailedPrecondition at the last one, which succeeds instead."""
        self._require(State.PROGRESSING, "advance")
        if self.last_stage:
            raise FailedPrecondition(f"release {self.id} is at its last stage")
        return self._at_stage(self.stage + 1, now, reason)

    def succeed(self, now: datetime, reason: str) -> "Release":
        self._require(State.PROGRESSING, "succeed")
        if not self.last_stage:
            raise FailedPrecondition(f"release {self.id} is at stage {self.stage}, not at its last")
        return self._ended(State.SUCCEEDED, now, reason)

    def roll_back(self, now: datetime, reason: str, actor: str = "") -> "Release":
        """All traffic back to the baseline; `actor`: who asked for it. Idempotent: the first roll-back stands."""
        if self.state is State.ROLLED_BACK:
            return self
        self._require_active()
        return self._ended(State.ROLLED_BACK, now, reason, actor)

    def fail(self, now: datetime, error: RatchetError) -> "Release":
        """The platform could not carry the release out; this is no verdict on the candidate."""
        self._require_active()
        return replace(self._ended(State.FAILED, now, error.message), failure=Failure.of(error))

    def retire(self, now: datetime) -> "Release":
        """Notes that the version that lost is unloaded: nothing is left to do."""
        if self.active:
            raise FailedPrecondition(f"release {self.id} is under way")
        return replace(self, retire_time=now)

    @property
    def last_stage(self) -> bool:
        return self.stage == len(self.spec.stages) - 1

    def _require(self, state: State, action: str) -> None:
        if self.state is not state:
            raise FailedPrecondition(f"release {self.id} is {self.state}: it cannot {action}")

    def _require_active(self) -> None:
        if not self.active:
            raise FailedPrecondition(f"release {self.id} has ended: {self.state}")

    def _at_stage(self, stage: int, now: datetime, reason: str) -> "Release":
        moved = replace(self, state=State.PROGRESSING, stage=stage, stage_start_time=now)
        return moved._noted(now, reason)

    def _ended(self, state: State, now: datetime, reason: str, actor: str = "") -> "Release":
        return replace(self, state=state, end_time=now)._noted(now, reason, actor)

    def _noted(self, now: datetime, reason: str, actor: str = "") -> "Release":
        return replace(self, events=(*self.events, ReleaseEvent(now, self.percent, reason, actor)))
