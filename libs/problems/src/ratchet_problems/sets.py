"""Problem sets by name, from a user's file, or of a data set that was fetched to this machine."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from ratchet_kit.errors import InvalidArgument, NotFound
from ratchet_kit.names import DatasetRef
from ratchet_problems import dataset_cache, jsonl, pair_tables, pairs, tables
from ratchet_problems.basics import basic_problems
from ratchet_problems.composed import SPLITS, composed_problems, demonstrations
from ratchet_problems.pairs import Pair
from ratchet_problems.problem import Problem

_SETS: dict[str, Callable[[], tuple[Problem, ...]]] = {
    **{f"composed/{split}": partial(composed_problems, split) for split in SPLITS},
    "composed/demonstrations": demonstrations,
    "basics": basic_problems,
}
NAMES = tuple(_SETS)
FAMILIES = frozenset(name.partition("/")[0] for name in NAMES)
"""No data set has one of these names."""


class UnknownProblemSet(NotFound):
    """No set has this name, it is no path of a .jsonl file, and no data set that is here."""


def dataset_of(name: str) -> DatasetRef | None:
    """The data set that a name stands for; None for a set of Ratchet's own, a path, and what cannot be a name."""
    if name in NAMES or name.partition("/")[0] in FAMILIES or name.endswith(".jsonl"):
        return None
    try:
        return DatasetRef.parse(name)
    except InvalidArgument:
        return None


def load(name: str, *, limit: int | None = None) -> tuple[Problem, ...]:
    """The set called `name` (see NAMES), the file when it ends in ".jsonl", or a data set ("mine@1/train") that
    `ratchet_problems.dataset_fetching` fetched; all its problems, or the first `limit`.

    A prefix of a composed set has the set's mix of difficulties. Raises UnknownProblemSet; InvalidProblem when a file
    cannot be read, holds a bad line or none.
    """
    if name.endswith(".jsonl"):
        return jsonl.read(Path(name))[:limit]
    ref = dataset_of(name)
    if ref is not None and dataset_cache.is_here(ref):
        return tables.read(dataset_cache.cached(ref), name, limit)
    return _named(name)[:limit]


def load_pairs(name: str, *, limit: int | None = None) -> tuple[Pair, ...]:
    """The pairs of a JSONL file, or of a data set that `dataset_fetching` fetched; all, or the first `limit`. Raises
    UnknownProblemSet, InvalidProblem, InvalidArgument."""
    ref = dataset_of(name)
    if ref is None:
        return pairs.read(name, limit=limit)
    table = dataset_cache.cached_pairs(ref)
    if ref.number is None or not ref.split or not table.is_file():
        raise UnknownProblemSet(f"no pairs {name!r}: name the path of a .jsonl file, or a data set")
    return pair_tables.read(table, name, limit)


@lru_cache
def _named(name: str) -> tuple[Problem, ...]:
    if name not in _SETS:
        raise UnknownProblemSet(
            f"no problem set {name!r}: use one of {', '.join(NAMES)}, the path of a .jsonl file, or a data set"
        )
    return _SETS[name]()
