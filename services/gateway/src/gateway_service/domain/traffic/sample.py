"""The traffic of a version, summed up; a release is judged by it."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from gateway_service.domain.statistics.moments import Moments
from gateway_service.domain.traffic.record import Arm

LATENCY_QUANTILE = 0.95
MAX_SAMPLE_LATENCIES = 1_000
NO_MOMENTS = Moments()


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


class UnitLatency(NamedTuple):
    """An answer's latency in seconds, and whose it was. A tuple: thousands are made at each look."""

    unit: str
    latency: float


class Attempt(NamedTuple):
    """An attempt to answer, and the user that it was for, or itself. A tuple: thousands are made at each look."""

    unit: str
    failed: bool
    left: bool
    score: float | None
    latency: float


@dataclass(frozen=True, slots=True)
class ArmSample:
    """The traffic of one version. A unit is a user, or a request that names none."""

    failures: Moments = NO_MOMENTS
    """Of each unit's requests, how many failed."""
    scores: Moments = NO_MOMENTS
    """Of each unit's scored answers, the sum of the scores, which are in [0, 1]."""
    latencies: tuple[UnitLatency, ...] = ()
    """Of the latest MAX_SAMPLE_LATENCIES answers."""
    leaving: Moments = NO_MOMENTS
    """Of each unit's requests, of how many the caller left before the end. These are not in `failures`."""

    slowness: Moments = NO_MOMENTS
    """Of each unit's answers in a release, how many were slow: see `CompletionRecord.slow`."""

    @property
    def answered(self) -> int:
        """Requests that were answered or failed."""
        return int(self.failures.x)

    @property
    def requests(self) -> int:
        return int(self.leaving.x)

    @property
    def left(self) -> int:
        return int(self.leaving.y)

    @property
    def errors(self) -> int:
        return int(self.failures.y)

    @property
    def scored(self) -> int:
        return int(self.scores.x)

    @property
    def mean_score(self) -> float:
        """In [0, 1]; 0 without a score."""
        return self.scores.y / self.scores.x if self.scores.x else 0.0

    @property
    def latency_p95(self) -> float:
        """Seconds; 0 without a latency."""
        return quantile(tuple(sorted(one.latency for one in self.latencies)), LATENCY_QUANTILE)


NO_TRAFFIC = ArmSample()


@dataclass(frozen=True, slots=True)
class ArmTraffic:
    """Sums over the requests of a version in one arm, whoever sent them."""

    arm: Arm
    requests: int
    """Answered, failed, or left by the caller."""
    errors: int = 0
    left: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    scored: int = 0
    mean_score: float = 0.0
    """In [0, 1]; 0 without a score."""
    latency_p50: float = 0.0
    """Seconds, of answers; 0 without one."""
    latency_p95: float = 0.0


def quantile(ascending: tuple[float, ...], q: float) -> float:
    """The smallest value that at least a share `q` of the values does not exceed; 0 for no values."""
    if not ascending:
        return 0.0
    return ascending[max(math.ceil(q * len(ascending)), 1) - 1]
