"""Draws compositions at random."""

from dataclasses import replace
from random import Random
from typing import TypeVar

from ratchet_problems.composed.composition import Composition
from ratchet_problems.composed.vocabulary import AFTERS, FILTERS, FINISHERS, MAPS, SOURCES, After, Filter, Finisher, Map

_Operation = TypeVar("_Operation", Filter, Map, Finisher, After)
_AFTER_SHARE = 0.35
_MOST = 2
"""Filters in a composition, and maps."""


def sample(rng: Random, difficulty: int) -> Composition | None:
    """A composition of that many steps, or None where the draw led to another number of them."""
    source = rng.choice(SOURCES)
    steps = difficulty - 1 - source.complex
    has_after = steps > 0 and rng.random() < _AFTER_SHARE
    steps -= has_after
    filter_count = min(_MOST, sum(rng.random() < 0.5 for _ in range(steps)))
    filters = rng.sample([filter_ for filter_ in FILTERS if filter_.kind == source.kind], filter_count)
    kind = source.kind
    maps: list[Map] = []
    for _ in range(min(_MOST, steps - filter_count)):
        maps.append(_bind(rng, rng.choice([map_ for map_ in MAPS if map_.kind == kind])))
        kind = maps[-1].to
    finisher = rng.choice([finisher for finisher in FINISHERS if finisher.kind in (None, kind)])
    afters = [after for after in AFTERS if after.shape == finisher.shape]
    composition = Composition(
        source=source,
        filters=tuple(_bind(rng, filter_) for filter_ in sorted(filters, key=FILTERS.index)),
        maps=tuple(maps),
        finisher=finisher,
        after=_bind(rng, rng.choice(afters)) if has_after and afters else None,
    )
    return composition if composition.difficulty == difficulty else None


def _bind(rng: Random, operation: _Operation) -> _Operation:
    """The operation with one of its constants filled in."""
    if not operation.constants:
        return operation
    constant = str(rng.choice(operation.constants))
    texts = {
        name: getattr(operation, name).replace("{k}", constant)
        for name in ("test", "after", "expression", "words", "suffix")
        if hasattr(operation, name)
    }
    return replace(operation, constants=(), **texts)
