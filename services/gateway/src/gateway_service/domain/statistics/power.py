"""How many units an experiment needs to show an effect, before it is begun."""

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from gateway_service.domain.statistics import sequences

MAX_UNITS = 1 << 40
"""More than any experiment has; an effect that needs more is not to be shown."""


def power(effect: float, deviation: float, n_a: float, n_b: float, alpha: float) -> float:
    """The chance that a two-sided t-test at a fixed horizon shows a true `effect`: a difference of means between units
    of standard deviation `deviation`."""
    freedom = n_a + n_b - 2
    shift = effect / (deviation * math.sqrt(1 / n_a + 1 / n_b))
    limit = float(special.stdtrit(freedom, 1 - alpha / 2))
    if freedom > 10_000:  # the noncentral t is normal by then, and slow
        return float(special.ndtr(shift - limit) + special.ndtr(-shift - limit))
    tails = np.nan_to_num(special.nctdtr(freedom, shift, (limit, -limit)))  # scipy gives NaN for some that are 0
    return float(1 - tails[0] + tails[1])


def fixed_units(effect: float, deviation: float, alpha: float, wanted: float, ratio: float = 1.0) -> int:
    """Units of the first variant with which a test at a fixed horizon shows the effect with power `wanted`; the second
    has `ratio` times as many."""
    return _least(lambda n: power(effect, deviation, n, max(n * ratio, 2), alpha) >= wanted)


def sequential_units(effect: float, deviation: float, alpha: float, wanted: float, ratio: float = 1.0) -> int:
    """The same for a confidence sequence that is narrowest just there. It is an upper bound: each look before had a
    chance too, and where the effect is larger it is shown earlier."""
    slack = float(special.ndtri(wanted))

    def shows(n: int) -> bool:
        units = n * (1 + ratio)
        error = deviation * math.sqrt(1 / n + 1 / (n * ratio))
        return (sequences.width(units, alpha, sequences.mixture(units, alpha)) + slack) * error <= effect

    return _least(shows)


def _least(suffices: Callable[[int], bool]) -> int:
    high = 2
    while not suffices(high):
        high *= 2
        if high > MAX_UNITS:
            return MAX_UNITS
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
