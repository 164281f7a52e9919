"""Report of an experiment: values, comparisons and a conclusion in words."""

from dataclasses import dataclass
from datetime import datetime

from gateway_service.domain.statistics.conclusions import Standing
from gateway_service.domain.traffic.measure import Measure
from ratchet_kit.statistics import Estimate


@dataclass(frozen=True, slots=True)
class MetricValue:
    measure: Measure
    value: float | None
    """None without a unit that has one."""
    units: int
    name: str = ""
    """Name of a NAMED metric."""


@dataclass(frozen=True, slots=True)
class VariantReport:
    name: str
    units: int
    requests: int
    values: tuple[MetricValue, ...]
    """The primary metric's, then the guardrails'."""
    later_units: int = 0
    """Units that came after the horizon of FIXED: they are not counted."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A variant against the first one, in one metric."""

    variant: str
    measure: Measure
    difference: Estimate | None
    """None while too little is known."""
    level: float
    """Level of the interval: 1 - confidence, after the correction for the number of comparisons."""
    p_value: float
    standing: Standing
    sentence: str
    name: str = ""
    """Name of a NAMED measure."""


@dataclass(frozen=True, slots=True)
class Report:
    create_time: datetime
    variants: tuple[VariantReport, ...]
    comparisons: tuple[Comparison, ...]
    """The primary metric of each variant first, then the guardrails."""
    sample_ratio_p_value: float
    mature: bool
    """The minimum of time and units is reached."""
    conclusion: str
    horizon_time: datetime | None = None
    """For FIXED: time up to which requests are counted; None before it."""
