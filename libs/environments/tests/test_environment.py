"""The interface holds for one turn and for several, and whoever calls an environment does it the same way."""

import pytest

from ratchet_environments import Environment, Episode, Outcome, Task, judge
from ratchet_kit.errors import FailedPrecondition
from ratchet_problems import CallTest, Message, Problem
from ratchet_rewards import Grade

TASK = Task.of(Problem("p", "Write f.", (CallTest("[1]", "2"),), entry_point="f"))


class Patient:
    """Passes "right"; says once or twice that an answer is wrong before it counts."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        if answer == "right":
            return episode.end(answer, Outcome(Grade("PASSED", 1, 1)))
        if len(episode.turns) + 1 < self._turns:
            return episode.go_on(answer, Grade("FAILED", 0, 1), Message("user", "Wrong. Try again."))
        return episode.end(answer, Outcome(Grade("FAILED", 0, 1)))


async def play(environment: Environment, *answers: str) -> Episode:
    """What every caller does, with answers that a policy would have given."""
    given = iter(answers)
    episode = await environment.start(TASK)
    while episode.outcome is None:
        episode = await environment.step(episode, next(given))
    return episode


async def test_one_turn() -> None:
    episode = await play(Patient(1), "right")
    assert episode.outcome == Outcome(Grade("PASSED", 1, 1))
    assert episode.messages == (Message("user", "Write f."), Message("assistant", "right"))
    assert episode.answer == "right"


async def test_several_turns_are_one_chat() -> None:
    episode = await play(Patient(3), "no", "right")
    assert episode.outcome is not None
    assert episode.outcome.grade.passed
    assert [(message.role, message.content) for message in episode.messages] == [
        ("user", "Write f."),
        ("assistant", "no"),
        ("user", "Wrong. Try again."),
        ("assistant", "right"),
    ]


async def test_an_episode_can_be_stepped_again() -> None:
    """A step leaves the episode that it was given as it was: after a fault of the platform it is simply repeated."""
    environment = Patient(2)
    start = await environment.start(TASK)
    first = await environment.step(start, "no")
    assert (start.turns, start.answer) == ((), "")
    assert (await environment.step(start, "no")) == first


async def test_one_answer_is_judged() -> None:
    assert not (await judge(Patient(1), TASK, "no")).grade.passed
    with pytest.raises(FailedPrecondition, match="does not end"):
        await judge(Patient(2), TASK, "no")
