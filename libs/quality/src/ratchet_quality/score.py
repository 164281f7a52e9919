"""The score that a component gives a program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ratchet_problems import Problem


class Unreadable(Exception):
    """A source that is no Python, or more than is read; its text is a sentence."""


@dataclass(frozen=True, slots=True)
class Score:
    """`value`: 0 to 1, more is better. `detail`: one sentence on what was found."""

    value: float
    detail: str


Component = Callable[..., Score]
"""Source of a program, the problem it answers, and the component's own parameters by name, each a number. Pure and
deterministic. Raises Unreadable."""

Parameters = Mapping[str, float]


def within(found: float, allowed: float) -> float:
    """1 up to what is allowed, then its share in what was found: twice as much as is allowed is 0.5."""
    return min(1.0, allowed / found) if found > 0 else 1.0


def reference(problem: Problem) -> str:
    """The preferred reference; empty where the problem has none."""
    return problem.references[0] if problem.references else ""
