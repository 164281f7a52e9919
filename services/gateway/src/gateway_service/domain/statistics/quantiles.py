"""A quantile of all values, with the variance that sticky units give it."""

from collections.abc import Sequence

import numpy as np

from gateway_service.domain.statistics.moments import MIN_UNITS, Mean, Moments, ratio

Z = 1.959964
"""Quantile of the interval from which the standard error is read."""


def quantile(values: Sequence[float], units: Sequence[str], q: float) -> Mean:
    """The q-quantile of `values`, each of the unit beside it.

    The share of values below it is a ratio over units, whose variance is known; the quantiles at the ends of the
    share's interval show how much the quantile moves with it, without an estimate of the density (Deng, Knoblich, Lu:
    Applying the delta method in metric analytics, KDD 2018, section 4.2). Its variance is infinite while there are too
    few units, or too few values to have such ends.
    """
    ascending = np.sort(np.asarray(values, float))
    _, numbers = np.unique(np.asarray(units), return_inverse=True)
    if not len(ascending):
        return Mean(0.0, float("inf"), 0)
    value = _at(ascending, q)
    counts = np.bincount(numbers)
    below = np.bincount(numbers, weights=np.asarray(values, float) <= value)
    if Moments.of(counts, below).effective_units < MIN_UNITS:
        return Mean(value, float("inf"), len(counts))
    # one value more on either side: a share of 1 - q lies above, so no unit that was not seen yet can be a surprise
    half = Z * ratio(Moments.of([*counts, 1, 1], [*below, 0, 1])).variance ** 0.5
    if q - half <= 0 or q + half >= 1:
        return Mean(value, float("inf"), len(counts))
    error = (_at(ascending, q + half) - _at(ascending, q - half)) / (2 * Z)
    return Mean(value, error * error, len(counts))


def _at(ascending: "np.ndarray[tuple[int], np.dtype[np.float64]]", q: float) -> float:
    """The smallest value that a share q of all does not exceed."""
    return float(ascending[max(int(np.ceil(q * len(ascending))), 1) - 1])
