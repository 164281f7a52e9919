"""Problem sets by name, or from a user's file."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

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


class UnknownProblemSet(LookupError):
    """No set has this name, and it is no path of a .jsonl file."""


def load(name: str, *, limit: int = 0) -> tuple[Problem, ...]:
    """The set called `name` (see NAMES), or the file when it ends in ".jsonl"; its first `limit` problems unless 0.

    A prefix of a composed set has the set's mix of difficulties. Raises UnknownProblemSet; InvalidProblem when a file
    cannot be read or holds a bad line.
    """
    problems = jsonl.read(Path(name)) if name.endswith(".jsonl") else _named(name)
    return problems[:limit] if limit else problems


@lru_cache
def _named(name: str) -> tuple[Problem, ...]:
    if name not in _SETS:
        raise UnknownProblemSet(f"no problem set {name!r}: use one of {', '.join(NAMES)}, or the path of a .jsonl file")
    return _SETS[name]()
