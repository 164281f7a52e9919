"""Differences in words, and the correction for the number of them."""

from collections.abc import Sequence
from enum import StrEnum

from ratchet_kit.statistics import Estimate


class Standing(StrEnum):
    """Standing of a variant against the first one. NO_DIFFERENCE: no difference that is worth waiting for."""

    UNDECIDED = "undecided"
    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference worth waiting for"


def standing(gain: Estimate, margin: float) -> Standing:
    """`gain`: the difference with its interval, where more is better. `margin`: a smaller difference is worth no
    waiting; 0 never gives that standing, nor does an interval without a width: values that never differ show nothing of
    those to come."""
    if gain.low > 0:
        return Standing.BETTER
    if gain.high < 0:
        return Standing.WORSE
    if -margin < gain.low < gain.high and gain.high < margin:
        return Standing.NO_DIFFERENCE
    return Standing.UNDECIDED


def holm_levels(p_values: Sequence[float], alpha: float) -> Sequence[float]:
    """The level at which each of several comparisons is looked at, so that the chance of any false alarm among them is
    alpha: Holm, Scandinavian Journal of Statistics 6 (1979).

    A comparison is shown when its p-value is at most its level; with p-values valid at any time, so is this.
    """
    levels = [0.0] * len(p_values)
    left = len(p_values)
    shown = True
    for index in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        levels[index] = alpha / left
        shown = shown and p_values[index] <= levels[index]
        left -= shown
    return levels
