"""Problem sets by name, or from a user's file."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from ratchet_kit.errors import NotFound
from ratchet_problems import jsonl
from ratchet_problems.basics import basic_problems
from ratchet_problems.composed import SPLITS, composed_problems, demonstrations
from ratchet_problems.problem import Problem

_SETS: dict[str, Callable[[], tuple[Problem, ...]]] = {
    **{f"composed/{split}": partial(composed_problems, split) for split in SPLITS},
    "composed/demonstrations": demonstrations,
    "basics": basic_problems,
}
NAMES = tuple(_SETS)


class UnknownProblemSet(NotFound):
    """No set has this name, and it is no path of a .jsonl file."""


def load(name: str, *, limit: int | None = None) -> tuple[Problem, ...]:
    """The set called `name` (see NAMES), or the file when it ends in ".jsonl"; all its problems, or the first `limit`.

    A prefix of a composed set has the set's mix of difficulties. Raises UnknownProblemSet; InvalidProblem when a file
    cannot be read, holds a bad line or none.
    """
    problems = jsonl.read(Path(name)) if name.endswith(".jsonl") else _named(name)
    return problems[:limit]


@lru_cache
def _named(name: str) -> tuple[Problem, ...]:
    if name not in _SETS:
        raise UnknownProblemSet(f"no problem set {name!r}: use one of {', '.join(NAMES)}, or the path of a .jsonl file")
    return _SETS[name]()
