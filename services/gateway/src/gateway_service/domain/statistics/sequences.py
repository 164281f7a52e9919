"""Confidence sequences: intervals that hold at all sample sizes at once, so that they may be looked at any time.

Robbins' normal mixture for means whose variance is estimated: Robbins, Statistical methods related to the law of the
iterated logarithm, Annals of Mathematical Statistics 41 (1970), eq. (12); Howard, Ramdas, McAuliffe, Sekhon,
Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics 49 (2021), eq. (14); asymptotic,
so for means of any distribution: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, Time-uniform central limit theory and
asymptotic confidence sequences, Annals of Statistics 52 (2024), theorem 2.2.

With n units, a standard error s and a mixture r, the interval is s * sqrt((1 + r / n) * log((n + r) / (r alpha^2)))
to either side: 3.0 s where it is narrowest, against 1.96 s of an interval that may be looked at once.
"""

import numpy as np
from scipy import special

from gateway_service.domain.statistics.moments import Mean
from ratchet_kit.statistics import Estimate


def mixture(units: float, alpha: float) -> float:
    """The mixture with which the interval is narrowest at `units` units: Howard et al., proposition 3. It has to be
    chosen before the first look."""
    return float(units / -(special.lambertw(-alpha * alpha / np.e, -1).real + 1))


def width(units: float, alpha: float, r: float) -> float:
    """Standard errors to either side of the estimate, for a level of 1 - alpha and a mixture r."""
    half: float = ((1 + r / units) * np.log((units + r) / (r * alpha * alpha))) ** 0.5
    return half


def interval(estimate: Mean, alpha: float, r: float) -> Estimate:
    """The estimate's interval: the chance that it ever leaves out the truth is alpha."""
    half = float(width(estimate.units, alpha, r) * estimate.variance**0.5)
    value = float(estimate.value)
    return Estimate(value, value - half, value + half)


def p_value(estimate: Mean, r: float) -> float:
    """The smallest alpha whose interval leaves out 0: always valid, at the look that it is of."""
    n = estimate.units
    if not np.isfinite(estimate.variance):
        return 1.0
    if estimate.variance == 0:
        return float(estimate.value == 0)
    square = estimate.value * estimate.value / estimate.variance
    evidence = np.log(r / (n + r)) / 2 + square * n / (2 * (n + r))
    return float(np.exp(-max(evidence, 0.0)))
