"""Rewards that rise in training alone."""

import pytest

from trainer_service.domain.guards.gaps import passing_what_is_rewarded, reward_in_training_alone
from trainer_service.domain.guards.guards import GUARDS
from trainer_service.domain.spec.thresholds import Thresholds

HERE = Thresholds()


def steps(
    first: float, last: float, base: float, score: float, groups: int = 16, problems: int = 64
) -> list[dict[str, float]]:
    sampled = [{"score_mean": first, "groups": float(groups)}] * 3 + [{"score_mean": last, "groups": float(groups)}] * 5
    sampled[0] = sampled[0] | {"base_score": base}
    sampled[-1] = sampled[-1] | {"validation_score": score, "validation_problems": float(problems)}
    return sampled


def test_a_reward_that_rises_in_training_alone_is_named_with_both_rises() -> None:
    said = reward_in_training_alone(steps(0.2, 0.95, 0.3, 0.05), HERE)
    assert said.startswith("the reward rises where it is learned from, and not where it is measured: +0.75 in training")
    assert "-0.25 in validation" in said
    assert "reward_gap" in [guard.name for guard in GUARDS if not guard.stops]


@pytest.mark.parametrize(
    "series",
    [
        steps(0.2, 0.9, 0.2, 0.8),  # it is learned
        steps(0.2, 0.45, 0.3, 0.3),  # by chance
        steps(0.2, 0.9, 0.3, 0.05, groups=1, problems=8),  # too few to say
        steps(0.2, 0.9, 0.3, 0.05)[1:],  # the base was not validated
        steps(0.2, 0.9, 0.3, 0.05)[:-1],  # nor was this step
        steps(-0.2, 0.9, 0.3, 0.05),  # a reward of another range
        [one | {"weight_style": 0.5} for one in steps(0.2, 0.9, 0.3, 0.05)],
    ],
)
def test_what_may_be_chance_or_is_not_known_is_none(series: list[dict[str, float]]) -> None:
    assert reward_in_training_alone(series, HERE) == ""


def test_the_threshold_is_the_lower_end_and_zero_is_none() -> None:
    series = steps(0.2, 0.95, 0.3, 0.05)
    assert reward_in_training_alone(series, Thresholds(reward_gap=0.6))
    assert not reward_in_training_alone(series, Thresholds(reward_gap=0.9))
    assert not reward_in_training_alone(series, Thresholds(reward_gap=0.0))


def test_a_difference_that_is_there_in_few_runs_without_one() -> None:
    """Of runs that learn nothing at all, none of a thousand is told that its tests leak."""
    import random

    draw = random.Random(3)
    share = lambda count: sum(draw.random() < 0.4 for _ in range(count)) / count  # noqa: E731
    said = [reward_in_training_alone(steps(share(48), share(80), share(64), share(64)), HERE) for _ in range(1000)]
    assert not any(said)


def judged(first: float, last: float, groups: int = 12) -> list[dict[str, float]]:
    return [{"second_hand_failed": share, "second_hand_groups": float(groups)} for share in [first] * 3 + [last] * 5]


def test_programs_for_the_tests_alone_are_named_with_both_shares() -> None:
    said = passing_what_is_rewarded(judged(0.1, 0.7), HERE)
    assert "70% of those that pass fail the tests of unrewarded_tests, where 10% did at the start" in said
    assert "second_hand_gap" in [guard.name for guard in GUARDS if not guard.stops]


@pytest.mark.parametrize(
    "series",
    [
        judged(0.4, 0.4),
        judged(0.7, 0.1),
        judged(0.1, 0.3),  # by chance
        judged(0.2, 0.6, groups=2),
        judged(0.1, 0.7)[1:],
        [*judged(0.1, 0.7), {"groups": 16.0}],  # a step in which nothing passed
    ],
)
def test_a_second_hand_that_may_be_chance_or_is_not_there_says_nothing(series: list[dict[str, float]]) -> None:
    assert passing_what_is_rewarded(series, HERE) == ""


def test_tests_that_are_found_out_at_once_are_named_without_a_rise() -> None:
    assert passing_what_is_rewarded(judged(0.95, 0.95), HERE)
    assert not passing_what_is_rewarded(judged(0.95, 0.95, groups=1), HERE), "too few to say"
    assert not passing_what_is_rewarded(judged(0.95, 0.95), Thresholds(second_hand_gap=0.0))


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_an_honest_run_is_looked_at_a_hundred_times_and_left_alone(share: float) -> None:
    import random

    draw, told = random.Random(11), 0
    for _ in range(200):
        failed = [sum(draw.random() < share for _ in range(12)) / 12 for _ in range(100)]
        series = [{"second_hand_failed": one, "second_hand_groups": 12.0} for one in failed]
        told += any(passing_what_is_rewarded(series[:step], HERE) for step in range(8, 101))
    assert told <= 4, "2 % of runs"


def test_steps_without_a_passing_program_are_passed_over() -> None:
    series = [one for judged_one in judged(0.1, 0.7) for one in ({"groups": 16.0}, judged_one)]
    assert passing_what_is_rewarded(series, HERE)
    assert not passing_what_is_rewarded(series, Thresholds(second_hand_gap=0.0))
