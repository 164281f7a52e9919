"""The tests of a problem that judge and earn nothing."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ratchet_environments import Task
from ratchet_environments.code import Ran
from ratchet_kit.errors import InvalidArgument, Unavailable
from ratchet_problems import CallTest, Problem
from ratchet_rewards import Grade
from trainer_service.job.reward.second_hand import SecondHand, hands


def problem(tests: int, id: str = "p") -> Problem:
    return Problem(id=id, prompt="Return x.", entry_point="f", tests=tuple(CallTest.of([i], i) for i in range(tests)))


@pytest.mark.parametrize(("tests", "share", "unrewarded"), [(10, 0.3, 3), (3, 0.9, 2), (2, 0.1, 1), (100, 0.25, 25)])
def test_a_share_of_the_tests_is_taken_out_of_what_is_rewarded(tests: int, share: float, unrewarded: int) -> None:
    whole = problem(tests)
    split = hands(whole, share)
    assert split.unrewarded is not None
    assert len(split.unrewarded.tests) == unrewarded
    assert {*split.rewarded.tests, *split.unrewarded.tests} == set(whole.tests)
    assert len(split.rewarded.tests) == tests - unrewarded
    assert (split.rewarded.id, split.rewarded.prompt) == (whole.id, whole.prompt)
    assert hands(whole, share) == split


def test_the_tests_taken_are_not_the_first_of_each_problem() -> None:
    taken = {split.unrewarded.tests for id in range(20) if (split := hands(problem(10, f"p{id}"), 0.1)).unrewarded}
    assert len(taken) > 3


@pytest.mark.parametrize("place", range(4))
def test_what_is_held_out_is_taken_first(place: int) -> None:
    whole = problem(4)
    held = replace(whole.tests[place], held_out=True)
    split = hands(replace(whole, tests=(*whole.tests[:place], held, *whole.tests[place + 1 :])), 0.25)
    assert split.unrewarded is not None
    assert split.unrewarded.tests == (held,)


@pytest.mark.parametrize(("tests", "share"), [(1, 0.5), (10, 0.0)])
def test_one_test_alone_is_rewarded(tests: int, share: float) -> None:
    whole = problem(tests)
    assert (hands(whole, share).rewarded, hands(whole, share).unrewarded) == (whole, None)


@dataclass
class Judge:
    says: dict[str, Any] = field(default_factory=dict)

    async def run(self, task: Task, answer: str) -> Ran:
        said = self.says[answer]
        if isinstance(said, Exception):
            raise said
        return Ran(Grade("PASSED" if said else "FAILED", int(said), 1))


def test_what_the_platform_could_not_judge_is_neither() -> None:
    judge = Judge({"right": True, "wrong": False, "lost": Unavailable("the lane died"), "bad": InvalidArgument("no")})
    answers = ["wrong", "lost", "right", "bad"]
    assert asyncio.run(SecondHand(judge, 0.5).passes(problem(1), answers)) == [False, None, True, None]


def test_a_fault_of_ours_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(SecondHand(Judge({"x": ZeroDivisionError()}), 0.5).passes(problem(1), ["x"]))
