"""How much a program says."""

from functools import lru_cache

from ratchet_problems import Problem
from ratchet_quality.score import Score, reference, within
from ratchet_quality.tokens import significant

LEAST = 20
"""Tokens that any program may have."""
WITHOUT_REFERENCE = 200


def length(source: str, problem: Problem, tokens: float = 0) -> Score:
    """Halstead's program length, all operators and operands (Elements of Software Science, 1977), as tokens without
    comments and docstrings, against the reference's, or against `tokens` where that is given: 1 up to as many, 0.5 for
    twice as many. Raises Unreadable."""
    found = _tokens(source)
    allowed = tokens or (max(_tokens(reference(problem)), LEAST) if problem.references else WITHOUT_REFERENCE)
    return Score(within(found, allowed), f"{found} tokens; {allowed:g} are allowed")


@lru_cache(maxsize=256)  # samples share their reference
def _tokens(source: str) -> int:
    return len(significant(source))
