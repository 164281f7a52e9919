"""What is measured of the request log, for experiments."""

from dataclasses import dataclass
from enum import StrEnum

from gateway_service.domain.traffic.metrics import check_metric_name
from ratchet_kit.faults import Faults

MAX_PRICE = 1e9
MILLION = 1e6


class Measure(StrEnum):
    """QUALITY: mean score of the scored answers; FEEDBACK and TESTS: of those that applications, and that a problem's
    tests scored. LEFT: attempts whose callers left before the end, over all. ERROR_RATE: over the others. LATENCY (mean
    seconds), LATENCY_P95, TOKENS and COST: of answers. NAMED: mean of the values that applications gave under a name of
    their own."""

    QUALITY = "quality"
    FEEDBACK = "feedback"
    TESTS = "tests"
    ERROR_RATE = "error_rate"
    LATENCY = "latency"
    LATENCY_P95 = "latency_p95"
    TOKENS = "tokens"
    COST = "cost"
    NAMED = "named"
    LEFT = "left"

    @property
    def more_is_better(self) -> bool:
        """Of a NAMED one the experiment says it."""
        return self in (Measure.QUALITY, Measure.FEEDBACK, Measure.TESTS)

    @property
    def is_bounded(self) -> bool:
        """Each value is in [0, 1]."""
        return self.more_is_better or self in (Measure.ERROR_RATE, Measure.LEFT)

    @property
    def is_of_answers(self) -> bool:
        """An attempt without an answer has no value: where variants leave out other ones, their values are of other
        requests."""
        return self in (Measure.LATENCY, Measure.LATENCY_P95, Measure.TOKENS, Measure.COST)

    @property
    def is_of_feedback(self) -> bool:
        """A request has a value where somebody gave it one, perhaps one in five, and later."""
        return self in (Measure.QUALITY, Measure.FEEDBACK, Measure.TESTS, Measure.NAMED)

    @property
    def unit(self) -> str:
        """Of its values, for people."""
        if self in (Measure.LATENCY, Measure.LATENCY_P95):
            return " s"
        return " tokens" if self is Measure.TOKENS else ""


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Of a million tokens, in a currency of the user's own."""

    prompt: float = 0.0
    completion: float = 0.0

    def check(self, faults: Faults) -> None:
        """Adds what is wrong with it."""
        faults.bounds("prompt_per_million", self.prompt, at_least=0.0, at_most=MAX_PRICE)
        faults.bounds("completion_per_million", self.completion, at_least=0.0, at_most=MAX_PRICE)
        faults.unless(
            self.prompt or self.completion, "completion_per_million", "must be above 0, or that of the prompt"
        )


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measure, with what else it takes to read it from a record."""

    measure: Measure
    name: str = ""
    """Of a NAMED one."""
    price: TokenPrice | None = None
    """For COST."""

    def check(self, faults: Faults, metric: str) -> None:
        """Adds what is missing; `metric` is the field that has measure and name."""
        if self.measure is Measure.NAMED:
            faults.read(f"{metric}.name", check_metric_name, self.name)
        else:
            faults.unless(not self.name, f"{metric}.name", f"must be empty: {self.measure} has no other name")
        if self.measure is Measure.COST and faults.unless(
            self.price is not None, "price", "must be set: cost is counted from tokens and their price"
        ):
            assert self.price is not None, "it was looked at"
            self.price.check(faults.under("price"))
