"""A release: the gradual move of a model's traffic from its champion to a candidate."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gateway_service.domain.traffic.record import Arm
from ratchet_kit.errors import FailedPrecondition, Failure, RatchetError
from ratchet_kit.faults import Faults
from ratchet_kit.names import VersionRef, check_model_name, check_version_number


class State(StrEnum):
    PREPARING = "preparing"
    PROGRESSING = "progressing"
    PAUSED = "paused"
    PROMOTING = "promoting"
    WATCHING = "watching"
    FALLING_BACK = "falling_back"
    SUCCEEDED = "succeeded"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"


class Unproven(StrEnum):
    """Action of a stage whose minima are met, and whose traffic does not show that the bounds hold.

    HOLD: it waits until the traffic does. PROCEED: the release goes on, unless a bound looks broken.
    """

    HOLD = "hold"
    PROCEED = "proceed"


DECIDED_WITHIN = timedelta(days=1)
"""After its `min_duration`, a stage that names no `max_duration` has so long to be decided."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A share of traffic for the candidate, and how long it is held."""

    percent: int
    min_duration: timedelta
    """The stage lasts at least this long ..."""
    min_samples: int
    """... until the candidate answered this many requests in it ..."""
    min_scored: int = 0
    """... and until this many of its answers have a score: in this stage and those before."""
    max_duration: timedelta | None = None
    """A release whose stage lasts longer fails; None: DECIDED_WITHIN after `min_duration`."""

    @property
    def deadline(self) -> timedelta:
        """After the stage's start."""
        return self.min_duration + DECIDED_WITHIN if self.max_duration is None else self.max_duration


MAX_STAGE_DURATION = timedelta(days=365)
"""Beyond it is a mistake, and soon more than protobuf's JSON can show."""
MAX_BASELINE_PERCENT = 50
DEFAULT_STAGES = tuple(Stage(percent, timedelta(minutes=5), 50) for percent in (1, 5, 25, 50, 100))


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much worse than the baseline a candidate may be."""

    max_error_rate_increase: float = 0.02
    """The candidate's error rate minus the baseline's; both are in [0, 1]."""
    max_latency_ratio: float = 1.5
    """The candidate's p95 latency divided by the baseline's."""
    max_quality_drop: float = 0.05
    """The baseline's mean score minus the candidate's; both are in [0, 1]."""
    max_left_increase: float = 0.02
    """The share of the candidate's callers who leave before their answer is complete minus the baseline's."""


@dataclass(frozen=True, slots=True)
class ReleaseSpec:
    """Specification of a release by the user."""

    candidate: VersionRef
    gate_id: str
    """The passed gate that lets the candidate replace the champion."""
    stages: tuple[Stage, ...] = DEFAULT_STAGES
    bounds: Bounds = Bounds()
    unproven: Unproven = Unproven.HOLD
    watch: timedelta = timedelta(hours=1)
    """For so long after its promotion the candidate is compared with the champion before, which it falls back to."""
    baseline_percent: int = 5
    """Percent of traffic that stays with the baseline until the watch ends: both are compared at the same time."""

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
            of_stage.bounds("min_scored", stage.min_scored, at_least=0)
            least, most = max(stage.min_duration, timedelta(0)), 2 * MAX_STAGE_DURATION
            if stage.max_duration is not None:
                of_stage.bounds("max_duration", stage.max_duration, at_least=min(least, most), at_most=most)
            previous = max(previous, stage.percent)
        spec.unless(self.stages and self.stages[-1].percent == 100, "stages", "must end at 100 percent")
        spec.bounds("watch", self.watch, at_least=timedelta(0), at_most=MAX_STAGE_DURATION)
        spec.bounds("baseline_percent", self.baseline_percent, at_least=0, at_most=MAX_BASELINE_PERCENT)
        spec.unless(
            self.baseline_percent or self.unproven is Unproven.PROCEED or len(self.stages) > 1,
            "baseline_percent",
            "must be above 0, where the only stage is of 100 percent and unproven is hold: nothing could be compared",
        )
        bounds = spec.under("bounds")
        bounds.bounds("max_error_rate_increase", self.bounds.max_error_rate_increase, at_least=0.0, at_most=1.0)
        bounds.bounds("max_latency_ratio", self.bounds.max_latency_ratio, at_least=1.0)
        bounds.bounds("max_quality_drop", self.bounds.max_quality_drop, at_least=0.0, at_most=1.0)
        bounds.bounds("max_left_increase", self.bounds.max_left_increase, at_least=0.0, at_most=1.0)
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
    """The way of a release:

        PREPARING --begin--> PROGRESSING --promote--> PROMOTING --succeed--> WATCHING --> SUCCEEDED
                              |   ^                       |                     |
                           pause  resume                  +-----roll back-------+--> FALLING_BACK --> ROLLED_BACK
                              v   |
                             PAUSED

    Until PROMOTING a roll-back is ROLLED_BACK at once. From there on the champion may have been set: FALLING_BACK sends
    all traffic to the baseline, and sets the champion back before it ends. FAILED: the platform could not carry the
    release out, or a stage could not be decided in its time.
    """

    id: str
    spec: ReleaseSpec
    baseline: VersionRef
    """The champion when the release was created."""
    create_time: datetime
    state: State = State.PREPARING
    stage: int = 0
    """Index in `spec.stages`; from the promotion on the number of stages: the watch is one more."""
    stage_start_time: datetime | None = None
    """When the present stage, the watch or the falling back began. The time of a pause is no time of the stage."""
    pause_time: datetime | None = None
    events: tuple[ReleaseEvent, ...] = ()
    failure: Failure | None = None
    end_time: datetime | None = None
    retire_time: datetime | None = None
    """When the version that lost was unloaded."""
    baseline_p95: timedelta | None = None
    """Latency of the baseline, as it was lately with at least half of the traffic, if it had so much: what takes longer
    is slow (of the candidate, `max_latency_ratio` times as long). None until enough is known."""
    actor: str = ""
    """The id of the API key that created it."""
    revision: int = 0
    """Grows with each stored change: the store refuses a writer that saw an older one."""

    @property
    def active(self) -> bool:
        return self.state not in (State.SUCCEEDED, State.ROLLED_BACK, State.FAILED)

    @property
    def percent(self) -> int:
        """The candidate's share of the model's traffic."""
        match self.state:
            case State.PROGRESSING:
                return min(self.spec.stages[self.stage].percent, 100 - self.spec.baseline_percent)
            case State.PROMOTING | State.WATCHING:
                return 100 - self.spec.baseline_percent
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

    @property
    def last_stage(self) -> bool:
        return self.stage == len(self.spec.stages) - 1

    def slow_after(self, arm: Arm) -> timedelta | None:
        """Latency beyond which an answer is slow."""
        if self.baseline_p95 is None:
            return None
        return self.baseline_p95 * (self.spec.bounds.max_latency_ratio if arm is Arm.CANDIDATE else 1.0)

    def begin(self, now: datetime) -> "Release":
        """Gives the candidate, now loaded, its first share of traffic."""
        self._require("begin", State.PREPARING)
        return self._at_stage(0, now, "the candidate's engine is ready")

    def advance(self, now: datetime, reason: str) -> "Release":
        """To the next stage. Raises FailedPrecondition at the last one, which is promoted instead."""
        self._require("advance", State.PROGRESSING)
        if self.last_stage:
            raise FailedPrecondition(f"release {self.id} is at its last stage")
        return self._at_stage(self.stage + 1, now, reason)

    def pause(self, now: datetime, reason: str, actor: str = "") -> "Release":
        """All traffic to the baseline, until it is resumed. Idempotent, as `resume` and `promote` are."""
        if self.state is State.PAUSED:
            return self
        self._require("pause", State.PROGRESSING)
        return replace(self, state=State.PAUSED, pause_time=now)._noted(now, reason, actor)

    def resume(self, now: datetime, reason: str, actor: str = "") -> "Release":
        """Goes on with the stage where it was paused."""
        if self.state is State.PROGRESSING:
            return self
        self._require("resume", State.PAUSED)
        assert self.pause_time is not None, "what is paused has a time of it"
        assert self.stage_start_time is not None, "what is paused was in a stage"
        start = self.stage_start_time + (now - self.pause_time)
        going = replace(self, state=State.PROGRESSING, stage_start_time=start, pause_time=None)
        return going._noted(now, reason, actor)

    def promote(self, now: datetime, reason: str, actor: str = "") -> "Release":
        """The last share to the candidate, which is to be the champion; what is watched already is watched no longer.
        People may do so at any stage, the gateway after the last one."""
        if self.state is State.WATCHING:
            return self._ended(State.SUCCEEDED, now, reason, actor)
        if self.state in (State.PROMOTING, State.SUCCEEDED):
            return self
        self._require("be promoted", State.PROGRESSING, State.PAUSED)
        promoting = replace(self, state=State.PROMOTING, stage=len(self.spec.stages), pause_time=None)
        return promoting._noted(now, reason, actor)

    def succeed(self, now: datetime) -> "Release":
        """Its candidate is the champion: it is watched, where the spec says so."""
        self._require("succeed", State.PROMOTING)
        if not self.spec.watch:
            return replace(self, state=State.SUCCEEDED, end_time=now)
        return replace(self, state=State.WATCHING, stage_start_time=now)

    def roll_back(self, now: datetime, reason: str, actor: str = "") -> "Release":
        """All traffic back to the baseline; `actor`: who asked for it. Idempotent: the first roll-back stands."""
        if self.state in (State.FALLING_BACK, State.ROLLED_BACK):
            return self
        self._require_active()
        if self.state in (State.PROMOTING, State.WATCHING):
            return replace(self, state=State.FALLING_BACK, stage_start_time=now)._noted(now, reason, actor)
        return self._ended(State.ROLLED_BACK, now, reason, actor)

    def fallen_back(self, now: datetime) -> "Release":
        """The baseline is the champion again, or another version that somebody chose meanwhile."""
        self._require("end so", State.FALLING_BACK)
        return replace(self, state=State.ROLLED_BACK, end_time=now)

    def fail(self, now: datetime, error: RatchetError) -> "Release":
        """The platform could not carry the release out, or not decide it; this is no verdict on the candidate."""
        self._require("fail", State.PREPARING, State.PROGRESSING, State.PROMOTING)
        return replace(self._ended(State.FAILED, now, error.message), failure=Failure.of(error))

    def give_up(self, now: datetime, error: RatchetError) -> "Release":
        """The platform cannot take its next step, however often it is tried. Before the champion is set, all traffic
        goes to the baseline; one that may just have set it falls back, and goes on trying to. A fault of the platform
        takes no champion back that was shown to be better: a watch goes on trying until its time is over. One that has
        ended stays as it ended."""
        if not self.active:
            return self.retire(now)
        if self.state is State.WATCHING:
            assert self.stage_start_time is not None, "what is watched has been since a time"
            if now < self.stage_start_time + self.spec.watch:
                return self
            ended = self._ended(State.SUCCEEDED, now, f"it could not be watched to the end: {error.message}")
            return replace(ended, failure=Failure.of(error))
        if self.state in (State.PROMOTING, State.FALLING_BACK):
            return replace(self.roll_back(now, error.message), failure=self.failure or Failure.of(error))
        return self.fail(now, error)

    def retire(self, now: datetime) -> "Release":
        """Notes that the version that lost is unloaded: nothing is left to do."""
        if self.active:
            raise FailedPrecondition(f"release {self.id} is under way")
        return replace(self, retire_time=now)

    def _require(self, action: str, *states: State) -> None:
        if self.state not in states:
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
