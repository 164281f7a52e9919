"""Tasks for policies, and the environments that judge what a policy answers.

async with Executor(GrpcSandbox(channel)) as executor:
    environment = CodeEnvironment(executor)
    episode = await environment.start(Task.of(problem))
    while episode.outcome is None:
        episode = await environment.step(episode, await complete(episode.messages))
    episode.outcome.grade

Errors, for every environment and everyone who calls one. A verdict is about the program, an error is about the
platform (DESIGN.md, I1); neither is ever turned into the other.

- The answer is wrong, does not compile, runs too long, tampers: an Outcome, with a grade. What it earns is the
  affair of whoever rewards it (`ratchet_rewards`).
- The platform could not judge it, after the environment's own retries: `step` raises Unavailable. The episode that was
  handed in still holds: step it again with the same answer, or leave the sample out. It never becomes a grade.
- The task itself cannot be run, whatever the answer: `start` or `step` raises InvalidArgument.
- Anything else that is raised is a bug.

This package is plain Python. What talks to sandbox-service is in its modules `sandbox`, `executor`, `code`, `turns`,
`edits`, `named`, `answers`, `own`, `rewarded` and `workspaces`, which only a service's `main` and adapters import.
"""

from ratchet_environments.environment import Environment, judge
from ratchet_environments.episode import Episode, Outcome, Turn
from ratchet_environments.spec import EnvironmentSpec
from ratchet_environments.task import Limits, Task

__all__ = ["Environment", "EnvironmentSpec", "Episode", "Limits", "Outcome", "Task", "Turn", "judge"]
