"""Problems without tests, judged by a reward of one's own: an answer that scores enough has passed."""

import math
from dataclasses import dataclass

from ratchet_environments import own
from ratchet_environments.environment import Environment
from ratchet_environments.episode import Episode, Outcome
from ratchet_environments.executor import Executor
from ratchet_environments.own import Sample
from ratchet_environments.task import Task
from ratchet_kit.errors import InvalidArgument
from ratchet_problems.extraction import program_of
from ratchet_rewards import UNTESTED, Component, Grade


@dataclass(frozen=True, slots=True)
class RewardedEnvironment:
    """An Environment of one answer. What has tests, or a right answer, `inner` judges."""

    inner: Environment
    executor: Executor
    reward: Component
    """With its program."""
    passing_score: float

    async def start(self, task: Task) -> Episode:
        return await self.inner.start(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        """Raises what `inner` raises, and InvalidArgument where the program fails or gives no number."""
        problem = episode.task.problem
        if problem.tests:
            return await self.inner.step(episode, answer)
        sample = Sample(answer, program_of(problem, answer), Grade(UNTESTED, 0, 0))
        [score] = await own.scores(self.executor, self.reward, problem, [sample])
        if math.isnan(score):
            raise InvalidArgument(f"{problem.id}: the reward {self.reward.name} gave an answer no number")
        passed = score >= self.passing_score
        detail = "" if passed else f"scored {score:g}, below {self.passing_score:g}"
        return episode.end(answer, Outcome(Grade("PASSED" if passed else "FAILED", 0, 0, detail)))
