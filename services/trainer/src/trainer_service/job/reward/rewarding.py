"""What the completions of a prompt earn: their values of each component measured, then combined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import ratchet_rewards
from ratchet_environments import Task
from ratchet_environments.own import Sample
from ratchet_problems import Problem
from ratchet_problems.extraction import program_of
from ratchet_rewards import Grade, Measured, Reward
from trainer_service.domain.spec.hyperparameters import Hyperparameters


def metric(component: str) -> str:
    """Its name in those of metrics: a plug-in's "plugin:x" is "plugin_x" there, a project's "acme~x" is "acme_x"."""
    return component.replace(":", "_").replace("~", "_")


class Measurer(Protocol):
    """`ratchet_quality.measuring.Measurer`."""

    async def measure(self, task: Task, samples: Sequence[Sample]) -> list[Measured | None]:
        """One for each sample, None where there is no number for it. Raises InvalidArgument, Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Earned:
    """Of one completion."""

    reward: float
    """What is learned from: -1 to 1, cut to the run's limit, less the punishment for its length."""
    before_length: float
    """The same without the punishment."""
    score: float
    """What it is worth by itself, whatever others there are."""
    values: Mapping[str, float]
    """As measured: component -> value, of those that count for the problem."""
    cut: bool
    """The reward, or a score of one's own, was beyond its limit."""
    vetoed: bool


@dataclass(frozen=True, slots=True)
class Graded:
    answer: str
    grade: Grade
    tokens: int = 0
    """Whose number is punished; 0: none is."""


@dataclass(frozen=True, slots=True)
class Overlong:
    """DAPO's soft punishment (arXiv:2503.14476, equation 13), `penalty` times."""

    penalty: float
    most: int
    """Tokens that a completion may have."""
    buffer: float
    """The share of them in which the punishment grows."""

    @classmethod
    def of(cls, hyper: Hyperparameters) -> "Overlong | None":
        """None where nothing is punished."""
        if not hyper.overlong_penalty or not hyper.overlong_buffer:
            return None
        return cls(hyper.overlong_penalty, hyper.max_response_tokens or 0, hyper.overlong_buffer)

    def punishment(self, tokens: int) -> float:
        """From 0, up to the beginning of the buffer, to `penalty` at its end."""
        cache = self.buffer * self.most
        return self.penalty * min(1.0, max(0.0, (tokens - (self.most - cache)) / cache))


class Rewarding:
    """Of one run. `limit`: rewards beyond it, either way, are cut to it; 0: none is."""

    def __init__(
        self, reward: Reward, measurer: Measurer, limit: float = 0.0, overlong: Overlong | None = None
    ) -> None:
        self.reward = reward
        self._measurer = measurer
        self._limit = limit
        self._overlong = overlong

    async def of_group(self, problem: Problem, graded: Sequence[Graded], step: int) -> list[Earned | None]:
        """Of the completions of one prompt, in order, at this step; None where there is no number for one.

        Raises InvalidArgument where the problem or a reward of one's own lets nothing be measured, Unavailable.
        """
        samples = [Sample(one.answer, program_of(problem, one.answer), one.grade) for one in graded]
        measured = await self._measurer.measure(Task.of(problem), samples)
        known = [one for one in measured if one is not None]
        reward = self.reward.of(problem.tags)
        rewards = iter(ratchet_rewards.rewards(reward, known, step))
        return [
            None if one is None else self._earned(reward, one, next(rewards), step, what.tokens)
            for one, what in zip(measured, graded, strict=True)
        ]

    @property
    def own(self) -> str:
        """The names of the rewards of one's own, for people to read."""
        return " and ".join(one.name for one in self.reward.components if one.is_own) or "the reward"

    def weights(self, step: int) -> dict[str, float]:
        """Of the components whose weights change."""
        scheduled = (component for component in self.reward.components if component.schedule)
        return {f"weight_{metric(component.name)}": component.weight_at(step) for component in scheduled}

    def _earned(self, reward: Reward, measured: Measured, earned: float, step: int, tokens: int) -> Earned:
        """`reward`: of the problem."""
        within = max(-self._limit, min(self._limit, earned)) if self._limit else earned
        return Earned(
            within - (self._overlong.punishment(tokens) if self._overlong else 0.0),
            within,
            ratchet_rewards.score(reward, measured, step),
            measured.values,
            measured.cut or within != earned,
            ratchet_rewards.is_vetoed(reward, measured),
        )
