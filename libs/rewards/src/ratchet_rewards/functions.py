"""Rewards by name: functions of a problem, a completion and what the sandbox saw. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from ratchet_problems.problem import Problem


@dataclass(frozen=True, slots=True)
class Reward:
    """What a completion earned.

    `verdict` is the sandbox's word without its prefix ("PASSED"); `components` is what `score` was made of.
    """

    score: float
    verdict: str
    detail: str = ""
    components: Mapping[str, float] = field(default_factory=dict)


class RewardFunction(Protocol):
    """Scores a completion that was really executed: platform faults never get here. Deterministic, without I/O."""

    def score(self, problem: Problem, completion: str, execution: pb.Execution) -> Reward: ...


class TestsPassed:
    """1 when all tests passed, else 0."""

    __test__ = False  # not for pytest

    def score(self, problem: Problem, completion: str, execution: pb.Execution) -> Reward:
        return _reward(float(execution.verdict == pb.VERDICT_PASSED), execution)


class TestsFraction:
    """The share of the problem's tests that passed, 0 to 1: denser, and easier to please with half of a solution."""

    __test__ = False

    def score(self, problem: Problem, completion: str, execution: pb.Execution) -> Reward:
        if execution.verdict == pb.VERDICT_TAMPERED:
            return _reward(0.0, execution)
        return _reward(_fraction(execution), execution)


@dataclass(frozen=True)
class _Weighted:
    parts: Mapping[str, tuple[float, RewardFunction]]

    def score(self, problem: Problem, completion: str, execution: pb.Execution) -> Reward:
        scores = {name: part.score(problem, completion, execution).score for name, (_, part) in self.parts.items()}
        total = sum(weight * scores[name] for name, (weight, _) in self.parts.items())
        return _reward(total, execution, scores)


def _fraction(execution: pb.Execution) -> float:
    if not execution.tests_total:
        return float(execution.verdict == pb.VERDICT_PASSED)
    return execution.tests_passed / execution.tests_total


def _reward(score: float, execution: pb.Execution, components: Mapping[str, float] | None = None) -> Reward:
    verdict = pb.Verdict.Name(execution.verdict).removeprefix("VERDICT_")
    return Reward(score, verdict, execution.detail, components or {"tests_fraction": _fraction(execution)})


_REWARDS: dict[str, RewardFunction] = {"tests_passed": TestsPassed(), "tests_fraction": TestsFraction()}


def names() -> list[str]:
    return sorted(_REWARDS)


def get(name: str) -> RewardFunction:
    """Raises InvalidArgument, with the names there are."""
    try:
        return _REWARDS[name]
    except KeyError:
        raise InvalidArgument(f"there is no reward {name!r}: use one of {', '.join(names())}") from None


def register(name: str, reward: RewardFunction) -> None:
    """Makes a reward known under a name, before anything asks for it. Raises ValueError for a name that is taken."""
    if name in _REWARDS:
        raise ValueError(f"there is already a reward {name!r}")
    _REWARDS[name] = reward


def compose(weights: Mapping[str, float]) -> RewardFunction:
    """The weighted sum of rewards by name; its components are the parts' scores. Raises InvalidArgument."""
    if not weights:
        raise InvalidArgument("a composed reward needs at least one part")
    return _Weighted({name: (weight, get(name)) for name, weight in weights.items()})
