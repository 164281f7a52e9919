"""Solved problems that are shown before a problem: few-shot, in training and in measuring (Brown et al., Language
models are few-shot learners, arXiv:2005.14165, section 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ratchet_kit.errors import InvalidArgument
from ratchet_problems.fingerprint import taught, tests_fingerprint
from ratchet_problems.messages import parted
from ratchet_problems.problem import Problem

DEFAULT = 3
"""Number of examples where none is said."""
MOST = 32
LOOKED_AT = 128
"""Problems at the beginning of a set among which examples are looked for."""


@dataclass(frozen=True, slots=True)
class Examples:
    """The solved problems of a set, in its order. Each problem gets the first `count` that give nothing of it away."""

    solved: Sequence[tuple[Problem, frozenset[str]]] = ()
    """Each with marks that it shares with whatever it gives away."""
    count: int = 0

    @classmethod
    def of(cls, name: str, problems: Sequence[Problem], count: int) -> "Examples":
        """`problems`: the first LOOKED_AT of the set `name`. A conversation is no example. Raises InvalidArgument where
        fewer than `count` are solved."""
        fit = (one for one in problems if one.references and not parted(one.conversation)[1])
        solved = [(one, _marks(one)) for one in fit]
        if len(solved) < count:
            raise InvalidArgument(
                f"{name} has {len(solved)} solved problems among its first {LOOKED_AT}, and {count} are to be examples:"
                " name a set with references, or fewer"
            )
        return cls(solved, count)

    def before(self, problem: Problem) -> Problem:
        """The problem with its examples: none is the problem itself, has its tests, or is made of the same."""
        if not self.count:
            return problem
        own = _marks(problem)
        others = (one for one, marks in self.solved if own.isdisjoint(marks))
        return replace(problem, examples=tuple(islice(others, self.count)))


def _marks(problem: Problem) -> frozenset[str]:
    tests, made_of = tests_fingerprint(problem), f"structure {problem.structure}" if problem.structure else ""
    return frozenset(filter(None, (*taught(problem), tests, made_of)))
