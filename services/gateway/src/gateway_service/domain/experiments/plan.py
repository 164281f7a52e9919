"""How many units and days an experiment needs, before it is begun."""

import math
from dataclasses import dataclass

from gateway_service.domain.experiments.experiment import MAX_GUARDRAILS
from gateway_service.domain.statistics import power
from gateway_service.domain.statistics.moments import MIN_UNITS
from gateway_service.domain.traffic.measure import Measure, Quantity, TokenPrice
from gateway_service.domain.traffic.record import Unit
from ratchet_kit.faults import Faults
from ratchet_kit.names import check_model_name


@dataclass(frozen=True, slots=True)
class PlanRequest:
    model: str
    measure: Measure
    effect: float
    """The difference to be shown, in the measure's own unit."""
    unit: Unit = Unit.USER
    alpha: float = 0.05
    power: float = 0.8
    weights: tuple[float, ...] = (1.0, 1.0)
    traffic: float = 1.0
    """The share of the model's units that take part."""
    deviation: float | None = None
    """Standard deviation of a unit's mean; None: from the model's traffic."""
    units_per_day: float | None = None
    """Units per day of the whole model; None: from the model's traffic."""
    name: str = ""
    """Name of a NAMED measure."""
    guardrails: int = 0
    """Number of guardrails of the experiment; LEFT is one more, unless it is the measure itself."""
    price: TokenPrice | None = None
    """Price of tokens, for the cost."""

    @property
    def quantity(self) -> Quantity:
        return Quantity(self.measure, self.name, self.price)

    def check(self) -> None:
        """Raises InvalidArgument that names every field at fault."""
        faults = Faults()
        faults.read("model", check_model_name, self.model)
        self.quantity.check(faults, "primary")
        faults.bounds("guardrails", self.guardrails, at_least=0, at_most=MAX_GUARDRAILS)
        faults.bounds("effect", self.effect, above=0.0)
        faults.bounds("alpha", self.alpha, above=0.0, at_most=0.5)
        faults.bounds("power", self.power, above=0.0, below=1.0)
        faults.bounds("traffic", self.traffic, above=0.0, at_most=1.0)
        faults.unless(len(self.weights) >= 2 and min(self.weights) > 0, "weights", "must be two or more, above 0")
        quantile = self.measure is Measure.LATENCY_P95
        faults.unless(not quantile or self.deviation, "deviation", "must be set for a quantile")
        for name in ("deviation", "units_per_day"):
            if (value := getattr(self, name)) is not None:
                faults.bounds(name, value, above=0.0)
        faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class Plan:
    """Units of the whole experiment, and days until it has them."""

    deviation: float
    units_per_day: float
    fixed_units: int
    fixed_days: float
    sequential_units: int
    sequential_days: float


def plan(request: PlanRequest, deviation: float, units_per_day: float) -> Plan:
    """For every variant against the first one, in all metrics, at a level that is corrected for their number
    (Bonferroni: the first step of Holm's), with the smallest of the others."""
    first, others = request.weights[0], request.weights[1:]
    metrics = 1 + request.guardrails + (request.measure is not Measure.LEFT)
    alpha, ratio = request.alpha / (len(others) * metrics), min(others) / first
    share, least = first / sum(request.weights), MIN_UNITS / min(1.0, ratio)
    of_fixed = max(power.fixed_units(request.effect, deviation, alpha, request.power, ratio), least)
    of_sequence = max(power.sequential_units(request.effect, deviation, alpha, request.power, ratio), least)
    daily = units_per_day * request.traffic
    fixed, sequence = math.ceil(of_fixed / share), math.ceil(of_sequence / share)
    return Plan(deviation, units_per_day, fixed, fixed / daily, sequence, sequence / daily)
