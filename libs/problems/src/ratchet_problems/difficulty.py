"""How difficult problems are for a model, by how often it has passed them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ratchet_problems.problem import MAX_DIFFICULTY, MIN_DIFFICULTY, Problem


def of_pass_rate(rate: float) -> int:
    """By fifths: 1 where more than 80 % of its answers pass, 5 where 20 % do, or fewer."""
    levels = MAX_DIFFICULTY - MIN_DIFFICULTY + 1
    return MIN_DIFFICULTY + min(levels - 1, int((1 - rate) * levels + 1e-9))


def by_pass_rate(problems: Iterable[Problem], rates: Mapping[str, float]) -> list[Problem]:
    """Problems that have a rate, by their ids: with the difficulty that it makes, the easiest first."""
    known = sorted((one for one in problems if one.id in rates), key=lambda one: -rates[one.id])
    return [replace(one, difficulty=of_pass_rate(rates[one.id])) for one in known]
