"""An experiment: versions of a model side by side on live traffic."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gateway_service.domain.experiments.replay import MAX_ANSWERS, MAX_PROMPTS, Replay
from gateway_service.domain.experiments.report import Report
from gateway_service.domain.traffic.measure import Measure, Quantity, TokenPrice
from gateway_service.domain.traffic.record import Unit
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.faults import MAX_REASON, Faults
from ratchet_kit.names import VersionRef, check_alias_name, check_model_name, check_version_number
from ratchet_kit.work import FREE, Hold

MAX_VARIANTS = 10
MAX_GUARDRAILS = 10
MAX_DURATION = timedelta(days=365)


class State(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    CONCLUDED = "concluded"
    STOPPED = "stopped"


class Analysis(StrEnum):
    """SEQUENTIAL: may be looked at any time. FIXED: decides once, by what is known when it has `min_units`."""

    SEQUENTIAL = "sequential"
    FIXED = "fixed"


class Direction(StrEnum):
    MORE_IS_BETTER = "more_is_better"
    LESS_IS_BETTER = "less_is_better"


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    version: VersionRef
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Metric:
    measure: Measure
    margin: float = 0.0
    """In the measure's own unit: a smaller difference is not worth waiting for."""
    name: str = ""
    """Name of a NAMED metric, as feedback gives it."""
    direction: Direction | None = None
    """Direction of a NAMED metric."""

    @property
    def label(self) -> str:
        """Text that tells it from the experiment's others."""
        return self.name or self.measure

    @property
    def more_is_better(self) -> bool:
        if self.direction is None:
            return self.measure.more_is_better
        return self.direction is Direction.MORE_IS_BETTER


LEFT, ERRORS = Metric(Measure.LEFT), Metric(Measure.ERROR_RATE)


@dataclass(frozen=True, slots=True)
class ExperimentSpec:
    """Specification of an experiment by the user."""

    variants: tuple[Variant, ...]
    """The first is what the others are compared with."""
    primary: Metric
    guardrails: tuple[Metric, ...] = ()
    unit: Unit = Unit.USER
    traffic: float = 1.0
    """The share of the model's units that take part."""
    analysis: Analysis = Analysis.SEQUENTIAL
    alpha: float = 0.05
    """The chance of any false alarm, over all variants, metrics and looks."""
    min_duration: timedelta = timedelta(0)
    min_units: int = 0
    """Minimum units of each variant before it may be concluded."""
    planned_units: int = 0
    """Units of all variants at which a sequence is narrowest; 0: not planned."""
    description: str = ""
    price: TokenPrice | None = None
    """Price of tokens, for the cost."""
    replay: Replay | None = None
    """Stored prompts are answered in place of live traffic."""
    display_name: str = ""

    @property
    def model(self) -> str:
        return self.variants[0].version.model

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All that are compared: who left is a guardrail of every one on live traffic."""
        named = (self.primary, *self.guardrails)
        is_there = self.replay is not None or any(metric.measure is Measure.LEFT for metric in named)
        return named if is_there else (*named, LEFT)

    @property
    def comparisons(self) -> int:
        """Every other variant with the first one, in all metrics."""
        return len(self.metrics) * (len(self.variants) - 1)

    @property
    def unanswered(self) -> tuple[Metric, ...]:
        """Which shares of requests without an answer have to be alike before answers are compared."""
        found = {metric.measure: metric for metric in self.metrics}
        return tuple(found.get(one.measure, one) for one in (LEFT, ERRORS) if one is ERRORS or self.replay is None)

    def quantity(self, metric: Metric) -> Quantity:
        return Quantity(metric.measure, metric.name, self.price)

    def check(self) -> None:
        """Raises InvalidArgument that names every field at fault."""
        faults = Faults()
        spec = faults.under("spec")
        spec.unless(2 <= len(self.variants) <= MAX_VARIANTS, "variants", f"must be from 2 to {MAX_VARIANTS}")
        for index, variant in enumerate(self.variants):
            one = spec.under(f"variants[{index}]")
            one.read("name", check_alias_name, variant.name)
            one.read("version.model", check_model_name, variant.version.model)
            one.read("version.number", check_version_number, variant.version.number)
            one.bounds("weight", variant.weight, above=0.0, at_most=1e6)
            one.unless(variant.version.model == self.model, "version.model", "must be that of the first variant")
        names = [variant.name for variant in self.variants]
        spec.unless(len(set(names)) == len(names), "variants", "must have names of their own")
        spec.unless(len(self.guardrails) <= MAX_GUARDRAILS, "guardrails", f"must be at most {MAX_GUARDRAILS}")
        labels = [metric.label for metric in self.metrics]
        spec.unless(
            len(set(labels)) == len(labels), "guardrails", "must differ from the primary metric and from one another"
        )
        for index, metric in enumerate(self.metrics):
            field = f"guardrails[{index - 1}]" if index else "primary"
            spec.bounds(f"{field}.margin", metric.margin, at_least=0.0)
            self.quantity(metric).check(spec, field)
            named = metric.measure is Measure.NAMED
            rule = "must be more or less is better" if named else f"must be unset: that of {metric.measure} is known"
            spec.unless((metric.direction is not None) == named, f"{field}.direction", rule)
        spec.bounds("traffic", self.traffic, above=0.0, at_most=1.0)
        spec.bounds("alpha", self.alpha, above=0.0, at_most=0.5)
        spec.bounds("min_duration", self.min_duration, at_least=timedelta(0), at_most=MAX_DURATION)
        spec.bounds("min_units", self.min_units, at_least=0, at_most=1 << 40)
        spec.bounds("planned_units", self.planned_units, at_least=0, at_most=1 << 40)
        is_sequence = self.analysis is Analysis.SEQUENTIAL and self.replay is None
        rule = "must be unset: it is for analysis sequential on live traffic"
        spec.unless(is_sequence or not self.planned_units, "planned_units", rule)
        spec.length("description", self.description, MAX_REASON)
        spec.length("display_name", self.display_name, MAX_REASON)
        if self.replay is not None:
            self._check_replay(self.replay, spec)
        fixed = self.analysis is Analysis.FIXED
        spec.unless(not fixed or self.min_units > 0, "min_units", "must be set for a fixed horizon: see the plan")
        faults.raise_if_any()

    def _check_replay(self, replay: Replay, spec: Faults) -> None:
        spec.bounds("replay.latest", replay.latest, at_least=0, at_most=MAX_PROMPTS)
        spec.bounds("replay.sampling.n", replay.sampling.n, at_least=1, at_most=MAX_ANSWERS)
        spec.unless(self.unit is Unit.REQUEST, "unit", "must be request: each prompt is a unit of its own")
        same = len({variant.weight for variant in self.variants}) == 1
        spec.unless(same, "variants", "must have the same weight: each of them answers all prompts")
        spec.unless(self.traffic == 1, "traffic", "must be 1: there is no live traffic")
        spec.unless(not self.min_duration, "min_duration", "must be 0: it lasts until all prompts are answered")
        for index, metric in enumerate(self.metrics):
            field = f"guardrails[{index - 1}].measure" if index else "primary.measure"
            by_people = metric.measure in (Measure.FEEDBACK, Measure.NAMED, Measure.LEFT)
            spec.unless(not by_people, field, "must be another: nobody waits for replayed answers, or gives feedback")


@dataclass(frozen=True, slots=True)
class ExperimentEvent:
    """A change of its state."""

    create_time: datetime
    state: State
    reason: str = ""
    actor: str = ""
    """The id of the API key that asked for it."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """DRAFT -> RUNNING <-> PAUSED, then CONCLUDED (its report is kept) or STOPPED (it has none)."""

    id: str
    spec: ExperimentSpec
    create_time: datetime
    state: State = State.DRAFT
    start_time: datetime | None = None
    """The first start."""
    end_time: datetime | None = None
    events: tuple[ExperimentEvent, ...] = ()
    report: Report | None = None
    """As it was when the experiment was concluded."""
    fixed: Report | None = None
    """For FIXED: its report from its horizon on."""
    past: tuple[Report, ...] = ()
    """Reports as of earlier moments, oldest first; kept when it is concluded."""
    actor: str = ""
    """The id of the API key that created it."""
    prompts: int = 0
    """For a replay: number of prompts that each variant answers."""
    hold: Hold = FREE
    """Which gateway replays them."""
    revision: int = 0
    """Grows with each stored change: the store refuses a writer that saw an older one."""

    @property
    def model(self) -> str:
        return self.spec.model

    @property
    def active(self) -> bool:
        """It was started and has not ended."""
        return self.state in (State.RUNNING, State.PAUSED)

    def start(self, now: datetime, actor: str = "") -> "Experiment":
        """Idempotent, as all changes are."""
        if self.state is State.RUNNING:
            return self
        self._require((State.DRAFT, State.PAUSED), "start")
        started = replace(self, start_time=self.start_time or now)
        return started._in(State.RUNNING, now, "", actor)

    def pause(self, now: datetime, reason: str, actor: str = "") -> "Experiment":
        if self.state is State.PAUSED:
            return self
        self._require((State.RUNNING,), "pause")
        return self._in(State.PAUSED, now, reason, actor)

    def stop(self, now: datetime, reason: str, actor: str = "") -> "Experiment":
        if self.state is State.STOPPED:
            return self
        self._require((State.DRAFT, State.RUNNING, State.PAUSED), "stop")
        return replace(self, end_time=now)._in(State.STOPPED, now, reason, actor)

    def conclude(self, now: datetime, report: Report, reason: str, early: bool, actor: str = "") -> "Experiment":
        """Raises FailedPrecondition before its minimum of time and units, unless `early`."""
        if self.state is State.CONCLUDED:
            return self
        self._require((State.RUNNING, State.PAUSED), "conclude")
        if not (report.mature or early):
            raise FailedPrecondition(f"experiment {self.id} has not lasted long enough: {report.conclusion}")
        return replace(self, end_time=now, report=report)._in(State.CONCLUDED, now, reason, actor)

    def taken(self, owner: str, now: datetime, lease: timedelta) -> "Experiment":
        """By a gateway that replays its prompts. Raises FailedPrecondition unless RUNNING, Aborted for another's."""
        self._require((State.RUNNING,), "be replayed")
        return replace(self, hold=self.hold.claim(f"experiment {self.id}", owner, now, lease))

    def given_back(self, owner: str) -> "Experiment":
        """Raises Aborted for another's."""
        return replace(self, hold=self.hold.release(f"experiment {self.id}", owner, attempted=True))

    def _require(self, states: tuple[State, ...], action: str) -> None:
        if self.state not in states:
            raise FailedPrecondition(f"experiment {self.id} is {self.state}: it cannot {action}")

    def _in(self, state: State, now: datetime, reason: str, actor: str) -> "Experiment":
        return replace(self, state=state, events=(*self.events, ExperimentEvent(now, state, reason, actor)))
