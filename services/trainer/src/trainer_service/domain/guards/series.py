"""Metrics over the steps of a run, read for its guards. What a step did not measure says nothing."""

from collections.abc import Mapping, Sequence
from statistics import fmean

Metrics = Mapping[str, float]
Series = Sequence[Metrics]
"""Of a run's steps, in order, the newest last: the first ones from the first step on."""


def values(series: Series, name: str) -> list[float]:
    """Of the steps that have it."""
    return [metrics[name] for metrics in series if name in metrics]


def latest(series: Series, name: str, count: int) -> list[float]:
    """Of the last so many steps; empty where one of them lacks it, or there are fewer."""
    found = values(series[-count:], name)
    return found if len(found) == count else []


def mean_at_first(series: Series, name: str, count: int, before: int) -> float | None:
    """Over the first so many steps that have it. None while these reach into the last `before` steps."""
    found = values(series[:-before], name)
    return fmean(found[:count]) if len(found) >= count else None
