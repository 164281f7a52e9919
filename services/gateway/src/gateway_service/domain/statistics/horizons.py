"""Tests at a fixed horizon: they hold when they are looked at once, at a number of units that was fixed before."""

import math
from dataclasses import dataclass

from scipy import special

from gateway_service.domain.statistics.moments import Mean
from ratchet_kit.statistics import Estimate


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference with its interval, and the two-sided p-value of no difference."""

    difference: Estimate
    p_value: float


def welch(a: Mean, b: Mean, alpha: float) -> Finding:
    """a - b by Welch's t (Biometrika 34, 1947), which takes no equal variances. Both need two units or more."""
    gap = a - b
    error = math.sqrt(gap.variance)
    if not math.isfinite(error):
        return Finding(Estimate(gap.value, -math.inf, math.inf), 1.0)
    if error == 0:
        return Finding(Estimate(gap.value, gap.value, gap.value), float(gap.value == 0))
    freedom = gap.variance**2 / (a.variance**2 / (a.units - 1) + b.variance**2 / (b.units - 1))
    half = float(special.stdtrit(freedom, 1 - alpha / 2)) * error
    p_value = 2 * float(special.stdtr(freedom, -abs(gap.value) / error))
    return Finding(Estimate(gap.value, gap.value - half, gap.value + half), p_value)


def paired(gap: Mean, alpha: float) -> Finding:
    """Student's t of a difference between two variants of the same units, two or more."""
    error = math.sqrt(gap.variance)
    if error == 0:
        return Finding(Estimate(gap.value, gap.value, gap.value), float(gap.value == 0))
    freedom = gap.units - 1
    half = float(special.stdtrit(freedom, 1 - alpha / 2)) * error
    p_value = 2 * float(special.stdtr(freedom, -abs(gap.value) / error))
    return Finding(Estimate(gap.value, gap.value - half, gap.value + half), p_value)
