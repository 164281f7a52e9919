"""The interface of an environment."""

from typing import Protocol

from ratchet_environments.episode import Episode, Outcome
from ratchet_environments.task import Task
from ratchet_kit.errors import FailedPrecondition


class Environment(Protocol):
    """Judges what a policy answers to a task, in one turn or several. One environment serves many episodes at a time.

    For the errors see the package.
    """

    async def start(self, task: Task) -> Episode:
        """An episode whose messages await the policy's first answer. Raises Unavailable, InvalidArgument."""
        ...

    async def step(self, episode: Episode, answer: str) -> Episode:
        """The episode after the policy's next answer: with an outcome when it has ended, else with new messages.

        Asks for an episode of this environment without an outcome. Raises Unavailable, InvalidArgument.
        """
        ...


async def judge(environment: Environment, task: Task, answer: str) -> Outcome:
    """How a single answer to the task does.

    Raises what the environment raises; FailedPrecondition where one answer does not end an episode.
    """
    episode = await environment.step(await environment.start(task), answer)
    if episode.outcome is None:
        raise FailedPrecondition(f"one answer to {task.problem.id} does not end its episode")
    return episode.outcome
