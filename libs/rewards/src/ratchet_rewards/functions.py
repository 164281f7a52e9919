"""Rewards by name. A new one is a function below `@reward("its_name")` in this file."""

from collections.abc import Callable, Mapping

from ratchet_kit.errors import InvalidArgument
from ratchet_problems.problem import Problem
from ratchet_rewards.grade import TAMPERED, Grade

RewardFunction = Callable[[Problem, str, Grade], float]
"""The reward of a completion of the problem, by its grade. Pure and deterministic; platform faults never get here."""

_REWARDS: dict[str, RewardFunction] = {}


def reward(name: str) -> Callable[[RewardFunction], RewardFunction]:
    """Registers the function below it. Raises ValueError for a name that is taken."""
    if name in _REWARDS:
        raise ValueError(f"there is already a reward {name!r}")

    def register(function: RewardFunction) -> RewardFunction:
        _REWARDS[name] = function
        return function

    return register


def names() -> list[str]:
    return sorted(_REWARDS)


def get(name: str) -> RewardFunction:
    """Raises InvalidArgument, with the names there are."""
    try:
        return _REWARDS[name]
    except KeyError:
        raise InvalidArgument(f"there is no reward {name!r}: use one of {', '.join(names())}") from None


def compose(weights: Mapping[str, float]) -> RewardFunction:
    """The weighted sum of rewards by name. Raises InvalidArgument."""
    if not weights:
        raise InvalidArgument("a composed reward needs at least one part")
    parts = [(weight, get(name)) for name, weight in weights.items()]
    return lambda problem, completion, grade: sum(weight * part(problem, completion, grade) for weight, part in parts)


@reward("tests_passed")
def tests_passed(problem: Problem, completion: str, grade: Grade) -> float:
    """1 when all tests passed, else 0."""
    return float(grade.passed)


@reward("tests_fraction")
def tests_fraction(problem: Problem, completion: str, grade: Grade) -> float:
    """The share of the problem's tests that passed, 0 to 1: denser, and easier to please with half of a solution."""
    if grade.verdict == TAMPERED:
        return 0.0
    if not grade.tests_total:
        return float(grade.passed)
    return grade.tests_passed / grade.tests_total
