"""The traffic of a version, summed up; a release is judged by it."""

import math
from dataclasses import dataclass
from datetime import datetime

LATENCY_QUANTILE = 0.95


@dataclass(frozen=True, slots=True)
class ArmSample:
    """The traffic of one version."""

    requests: int = 0
    errors: int = 0
    latencies: tuple[float, ...] = ()
    """Seconds, of answered requests only, ascending."""
    scored: int = 0
    mean_score: float = 0.0
    """In [0, 1]; 0 without a score."""

    @property
    def latency_p95(self) -> float:
        """Seconds; 0 without a latency."""
        return quantile(self.latencies, LATENCY_QUANTILE)

    @property
    def error_rate(self) -> float:
        return self.errors / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic that a release is judged by."""

    candidate: ArmSample = ArmSample()
    """The candidate's arm in the present stage."""
    baseline: ArmSample = ArmSample()
    """The baseline's arm in the present stage."""
    reference: ArmSample = ArmSample()
    """All recent traffic of the baseline's version: used where the stage's own baseline is too small, as at 100 %."""


@dataclass(frozen=True, slots=True)
class Period:
    """From a time on, and before another."""

    start_time: datetime
    end_time: datetime


@dataclass(frozen=True, slots=True)
class UnitCount:
    """Of a variant of an experiment."""

    units: int
    requests: int


@dataclass(frozen=True, slots=True)
class UnitLatency:
    """An answer's latency in seconds, and whose it was."""

    unit: str
    latency: float


def quantile(ascending: tuple[float, ...], q: float) -> float:
    """The smallest value that at least a share `q` of the values does not exceed; 0 for no values."""
    if not ascending:
        return 0.0
    return ascending[max(math.ceil(q * len(ascending)), 1) - 1]
