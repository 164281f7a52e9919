"""A statistic with its interval, as evaluations, gates, releases and reports share it."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic and the ends of its confidence interval; who makes one says at which level."""

    value: float
    low: float
    high: float


def wilson(mean: float, n: float, z: float) -> Estimate:
    """Interval of a mean of `n` values in [0, 1], `z` standard errors wide to either side; all of [0, 1] when n is 0.

    Wilson's score interval (JASA 22, 1927), which needs no variance and behaves at 0 and 1. It is made for 0/1 values
    and errs to the wide side for others, because a variable in [0, 1] of mean m has at most the variance m (1 - m).
    """
    if n == 0:
        return Estimate(mean, 0.0, 1.0)
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    # rounding aside, the mean is within
    return Estimate(mean, max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))
