"""Drift: traffic of a day that is worse than before, by more than a release would allow a candidate.

Each day has confidence sequences of its own, which begin with it: so a change is not thinned out by the good days
before, and the day may be looked at any time. What they are held against is traffic of the same hours of days before,
of this version or of the champion before it. The bounds are a release's: what moves less from one day to the next is
no drift.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gateway_service.domain.releases.findings import ALPHA, MIXTURE, Bound
from gateway_service.domain.releases.release import Bounds
from gateway_service.domain.statistics import sequences
from gateway_service.domain.statistics.moments import MIN_UNITS, Mean, Moments, mean
from gateway_service.domain.statistics.strata import Cell, Strata, difference
from gateway_service.domain.traffic.sample import LATENCY_QUANTILE, ArmSample, Attempt, quantile
from ratchet_kit.statistics import Estimate

DAYS = 30
"""In which a version that stays as it is gets a notice with a chance of ALPHA at most."""
REFERENCES = 2
LEVEL = ALPHA / (DAYS * REFERENCES * len(Bound))
BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Drift:
    """A bound that is shown to be broken."""

    bound: Bound
    now: float
    before: float
    worse: Estimate
    """How much worse it is; of the latency, the share of answers that are slow. It holds at all looks."""

    @property
    def words(self) -> str:
        if self.bound is Bound.LATENCY:
            ratio = f"{BOUNDS.max_latency_ratio:g} times the p95"
            return f"{100 * self.now:.1f} % of answers took longer than {ratio} of before, and 5 % may"
        scale, unit = (1.0, "") if self.bound is Bound.QUALITY else (100.0, " %")
        noun = {Bound.ERROR_RATE: "error rate", Bound.LEFT: "callers who left", Bound.QUALITY: "mean score"}[self.bound]
        return f"{noun} {scale * self.now:.3g}{unit} against {scale * self.before:.3g}{unit}"


def samples(now: Sequence[Attempt], before: Sequence[Attempt]) -> tuple[ArmSample, ArmSample]:
    """As `find` takes them."""
    p95 = quantile(tuple(sorted(one.latency for one in before if not one.failed and not one.left)), LATENCY_QUANTILE)
    limit = BOUNDS.max_latency_ratio * p95 or float("inf")
    return _sample(now, limit), _sample(before, limit)


def _sample(attempts: Sequence[Attempt], limit: float) -> ArmSample:
    kept = [one for one in attempts if not one.left]
    return ArmSample(
        failures=_moments([(one.unit, float(one.failed)) for one in kept]),
        scores=_moments([(one.unit, one.score) for one in attempts if one.score is not None]),
        leaving=_moments([(one.unit, float(one.left)) for one in attempts]),
        slowness=_moments([(one.unit, float(one.latency > limit)) for one in kept if not one.failed]),
    )


def _moments(values: Sequence[tuple[str, float]]) -> Moments:
    if not values:
        return Moments()
    units, numbers = zip(*values, strict=True)
    _, places = np.unique(np.asarray(units), return_inverse=True)
    return Moments.of(np.bincount(places), np.bincount(places, weights=np.asarray(numbers)))


def find(now: ArmSample, before: ArmSample) -> Sequence[Drift]:
    """`slowness` of `now`: answers that took longer than the ratio that a release allows times the p95 of `before`."""
    found = [
        _drift(Bound.ERROR_RATE, now.failures, before.failures, BOUNDS.max_error_rate_increase),
        _drift(Bound.LEFT, now.leaving, before.leaving, BOUNDS.max_left_increase),
        _drift(Bound.QUALITY, now.scores, before.scores, BOUNDS.max_quality_drop, sign=-1),
        _latency(now.slowness),
    ]
    return [one for one in found if one is not None]


def _drift(bound: Bound, now: Moments, before: Moments, allowed: float, sign: int = 1) -> Drift | None:
    gap = difference(Strata({Cell(0, "now"): now, Cell(0, "before"): before}), "now", "before")
    if gap is None:
        return None
    return _shown(bound, now.y / now.x, before.y / before.x, Mean(sign * gap.value, gap.variance, gap.units), allowed)


def _latency(slow: Moments) -> Drift | None:
    if slow.units < MIN_UNITS:
        return None
    share, allowed = mean(slow, bounded=True), 1 - LATENCY_QUANTILE
    return _shown(Bound.LATENCY, share.value, allowed, share, allowed)


def _shown(bound: Bound, now: float, before: float, worse: Mean, allowed: float) -> Drift | None:
    interval = sequences.interval(worse, LEVEL, MIXTURE)
    return Drift(bound, now, before, interval) if interval.low > allowed else None
