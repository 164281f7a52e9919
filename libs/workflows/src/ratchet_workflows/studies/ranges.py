"""The section `search` of a study: where to look, and what ends the search and its trials."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ratchet_workflows.notation.fields import Source

KINDS = ("loguniform", "uniform", "choice")
FIELDS = ("ranges", "trials", "budget", "asha", "seed")
MAX_TRIALS = 1_000


@dataclass(frozen=True, slots=True)
class Range:
    """Where values of a field are looked for."""

    kind: str
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()
    whole: bool = False
    """True for a field that takes whole numbers."""

    def holds(self, value: object) -> bool:
        if self.kind == "choice":
            return value in self.choices
        return isinstance(value, (int, float)) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Budget:
    """Limit for all trials together; None: no limit. The trial that goes on when one is reached is the last."""

    tokens: int | None = None
    steps: int | None = None
    hours: float | None = None


@dataclass(frozen=True, slots=True)
class Asha:
    """Successive halving (arXiv:1810.05934): at `min_steps`, and each `factor` times as many, 1 of `factor` goes on."""

    min_steps: int = 1
    factor: int = 3


@dataclass(frozen=True, slots=True)
class Search:
    ranges: Mapping[str, Range]
    """Path of a field of a run -> where its values are looked for."""
    trials: int
    budget: Budget
    asha: Asha | None
    seed: int
    """Seed of the search, which chooses the settings that it tries."""


def read_search(source: Source, data: Any) -> Search:
    """Raises UsageError for what is not a field, is no value of one, or is missing."""
    fields = _mapping(source, data, "search", FIELDS)
    for name, reason in (("ranges", "say where to look"), ("trials", "say how many there are at most")):
        if name not in fields:
            raise source.wrong(f"search.{name}", f"is missing: {reason}")
    ranges = {str(path): _range(source, f"search.ranges.{path}", one) for path, one in _ranges(source, fields).items()}
    budget = _mapping(source, fields.get("budget", {}), "search.budget", ("tokens", "steps", "hours"))
    asha = _mapping(source, fields["asha"], "search.asha", ("min_steps", "factor")) if "asha" in fields else None
    number = source.whole_number
    return Search(
        ranges,
        number(fields["trials"], "search.trials", 1, MAX_TRIALS),
        Budget(
            number(budget["tokens"], "search.budget.tokens", 1) if "tokens" in budget else None,
            number(budget["steps"], "search.budget.steps", 1) if "steps" in budget else None,
            _positive(source, budget["hours"], "search.budget.hours") if "hours" in budget else None,
        ),
        None
        if asha is None
        else Asha(
            number(asha.get("min_steps", 1), "search.asha.min_steps", 1),
            number(asha.get("factor", 3), "search.asha.factor", 2),
        ),
        number(fields.get("seed", 0), "search.seed", 0, 2**32 - 1),
    )


def _mapping(source: Source, data: Any, path: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise source.wrong(path, "must be fields with values (name: value)")
    for name in data:
        if name not in known:
            raise source.unknown(path, name, known)
    return data


def _ranges(source: Source, fields: Mapping[str, Any]) -> Mapping[Any, Any]:
    ranges = fields["ranges"]
    if not isinstance(ranges, Mapping) or not ranges:
        raise source.wrong("search.ranges", "must be fields of a run with their ranges")
    return ranges


def _range(source: Source, path: str, data: Any) -> Range:
    if not isinstance(data, Mapping) or len(data) != 1 or next(iter(data)) not in KINDS:
        raise source.wrong(
            path, "must be {loguniform: [low, high]}, {uniform: [low, high]} or {choice: [value, value]}"
        )
    ((kind, values),) = data.items()
    if not isinstance(values, list) or len(values) < 2:
        raise source.wrong(f"{path}.{kind}", "must be a list of two values or more")
    if kind == "choice":
        if any(not isinstance(one, (str, int, float, bool)) for one in values) or len(set(values)) < len(values):
            raise source.wrong(f"{path}.{kind}", "must be different texts or numbers")
        return Range(kind, choices=tuple(values))
    ends = [_number(one) for one in values]
    if len(ends) != 2 or None in ends or not ends[0] < ends[1] or (kind == "loguniform" and ends[0] <= 0):  # type: ignore[operator]
        least = ", both above 0" if kind == "loguniform" else ""
        raise source.wrong(f"{path}.{kind}", f"must be [low, high] with low below high{least}")
    return Range(kind, ends[0], ends[1])  # type: ignore[arg-type]


def _positive(source: Source, value: Any, path: str) -> float:
    number = _number(value)
    if number is None or number <= 0:
        raise source.wrong(path, f"must be a number above 0, not {value!r}")
    return number


def _number(value: Any) -> float | None:
    """YAML takes 1e-4 for a text. None for what is no finite number."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
