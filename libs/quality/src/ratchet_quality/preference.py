"""Scores of completions by a reward model, within 0 and 1."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from ratchet_problems import Problem

NAME = "preference"


class Scorer(Protocol):
    """A reward model."""

    async def scores(self, problem: Problem, answers: Sequence[str]) -> Sequence[float]:
        """In order, as the model gives them; NaN for an answer that it has no room for."""
        ...


def within(score: float, parameters: Mapping[str, float]) -> float:
    """1 / (1 + exp(-(score - center) / scale)); NaN for what is no finite number.

    By Bradley and Terry (1952, "Rank analysis of incomplete block designs"), whose model reward models are fitted to
    (arXiv:2203.02155, equation 1), with a scale of 1 this is the probability that the answer is preferred to one whose
    score is `center`.
    """
    if not math.isfinite(score):
        return math.nan
    distance = (score - parameters.get("center", 0.0)) / parameters.get("scale", 1.0)
    small = math.exp(-abs(distance))  # exp of a large number overflows
    return (1.0 if distance >= 0 else small) / (1 + small)
