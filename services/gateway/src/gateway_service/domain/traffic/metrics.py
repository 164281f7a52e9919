"""Numbers that an application measured of a completion, by names of its own. Experiments compare them."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ratchet_kit.errors import FailedPrecondition, invalid
from ratchet_kit.faults import Faults

Metrics: TypeAlias = Mapping[str, float]

MAX_METRICS = 20
"""Of one completion."""
MAX_VALUE = 1e12
"""So that sums of squares of many stay numbers."""
NO_METRICS: Metrics = {}
_NAME = re.compile(r"[a-z][a-z0-9._-]{0,62}")
_SHOWN = 80
"""Characters of a name that is refused."""


def check_metric_name(text: str, field: str) -> str:
    """`text` when it may name a metric. Raises InvalidArgument, which names `field`."""
    if not _NAME.fullmatch(text):
        rule = "must start with a letter and hold at most 63 of a-z, 0-9, '.', '_', '-'"
        raise invalid(field, f"{rule}; not {text[:_SHOWN]!r}")
    return text


def check_metrics(faults: Faults, metrics: Metrics) -> None:
    """Adds what is wrong with them."""
    if not faults.length("metrics", metrics, MAX_METRICS):
        return
    for name, value in metrics.items():
        if faults.read("metrics", check_metric_name, name):
            faults.bounds(f"metrics.{name}", value, at_least=-MAX_VALUE, at_most=MAX_VALUE)


def content(metrics: Metrics) -> Sequence[Metrics]:
    """What they add to the content of a request; nothing where there are none."""
    return [dict(metrics)] if metrics else []


def merged(completion_id: str, before: Metrics, new: Metrics) -> dict[str, float]:
    """All of a completion. A new value replaces an earlier one of its name. Raises FailedPrecondition for too many."""
    found = {**before, **new}
    if len(found) > MAX_METRICS:
        raise FailedPrecondition(f"completion {completion_id} would have more than {MAX_METRICS} metrics, the maximum")
    return found
