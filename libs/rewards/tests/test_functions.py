import pytest

import ratchet_rewards as rewards
from ratchet_kit.errors import InvalidArgument
from ratchet_problems.problem import CallTest, Problem
from ratchet_rewards import Grade

PROBLEM = Problem("p", "Write f.", (CallTest("[1]", "2"),) * 4, entry_point="f")


@pytest.mark.parametrize(
    ("name", "grade", "score"),
    [
        ("tests_passed", Grade("PASSED", 4, 4), 1.0),
        ("tests_passed", Grade("FAILED", 3, 4), 0.0),
        ("tests_passed", Grade("TAMPERED", 0, 4), 0.0),
        ("tests_fraction", Grade("PASSED", 4, 4), 1.0),
        ("tests_fraction", Grade("TIME_LIMIT", 3, 4), 0.75),
        ("tests_fraction", Grade("TAMPERED", 3, 4), 0.0),
        ("tests_fraction", Grade("PASSED", 0, 0), 1.0),
    ],
)
def test_rewards_by_grade(name: str, grade: Grade, score: float) -> None:
    assert rewards.get(name)(PROBLEM, "", grade) == score


def test_a_composed_reward_is_the_weighted_sum() -> None:
    reward = rewards.compose({"tests_passed": 0.8, "tests_fraction": 0.2})
    assert reward(PROBLEM, "", Grade("FAILED", 2, 4)) == pytest.approx(0.1)
    assert reward(PROBLEM, "", Grade("PASSED", 4, 4)) == pytest.approx(1.0)


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InvalidArgument, match="tests_fraction, tests_passed"):
        rewards.get("vibes")
    with pytest.raises(InvalidArgument):
        rewards.compose({})


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="already"):
        rewards.reward("tests_passed")
