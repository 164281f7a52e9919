"""Curves of several seeds as one, with a band. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from ratchet_kit.statistics import Estimate, mean_of_runs

Curve = Sequence[tuple[float, float]]
"""(x, y), x rising."""

POINTS = 40
SMOOTHED = 5
"""Steps of a moving mean."""


@dataclass(frozen=True, slots=True)
class Band:
    """The mean of curves where all of them are; `low` and `high` are its 95 % interval, absent for one curve."""

    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def band(curves: Sequence[Curve]) -> Band | None:
    """None where the curves have no stretch in common."""
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    first, last = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    if first > last:
        return None
    if len(curves) == 1:
        return Band([x for x, _ in curves[0]], [y for _, y in curves[0]])
    places = [first + (last - first) * place / (POINTS - 1) for place in range(POINTS)] if last > first else [first]
    at: list[Estimate] = [mean_of_runs([_between(curve, x) for curve in curves]) for x in places]
    return Band(places, [one.value for one in at], [one.low for one in at], [one.high for one in at])


def _between(curve: Curve, x: float) -> float:
    """On the line between the nearest two points."""
    for (x0, y0), (x1, y1) in pairwise(curve):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return curve[-1][1] if x > curve[-1][0] else curve[0][1]


def smoothed(curve: Curve) -> Curve:
    values = [y for _, y in curve]
    return [(x, fmean(values[max(0, place - SMOOTHED + 1) : place + 1])) for place, (x, _) in enumerate(curve)]
