"""How alike a program is to the references of its problem."""

from collections import Counter
from functools import lru_cache

from ratchet_problems import Problem
from ratchet_quality.score import Score, Unreadable
from ratchet_quality.tokens import significant

LONGEST = 4
"""Tokens of the longest runs that are compared, as in BLEU (Papineni et al. 2002)."""
REFERENCES = 4
"""So many are compared with, the preferred ones."""

Runs = tuple[Counter[tuple[str, ...]], ...]


def similarity(source: str, problem: Problem) -> Score:
    """The mean over n = 1 to 4 of the Dice coefficient (Ecology 26(3), 1945) of the runs of n tokens in the program and
    in the reference, each as often as it is there; with the most alike of the references. Raises Unreadable, also for a
    problem without a reference."""
    if not problem.references:
        raise Unreadable("its problem has no reference")
    own = _runs(source)
    best = max(_alike(own, _of_reference(one)) for one in problem.references[:REFERENCES])
    return Score(best, f"{best:.0%} of the runs of tokens are those of a reference")


def _alike(ours: Runs, theirs: Runs) -> float:
    shares = []
    for one, other in zip(ours, theirs, strict=True):
        total = one.total() + other.total()
        if total:  # programs of fewer tokens have no runs of so many
            shares.append(2 * (one & other).total() / total)
    return sum(shares) / len(shares) if shares else 0.0


def _runs(source: str) -> Runs:
    words = [token.string for token in significant(source)]
    return tuple(
        Counter(tuple(words[place : place + size]) for place in range(len(words) - size + 1))
        for size in range(1, LONGEST + 1)
    )


_of_reference = lru_cache(maxsize=256)(_runs)  # samples share their references
