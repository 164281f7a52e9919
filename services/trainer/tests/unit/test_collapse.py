"""Policies that fall below their base, and those that only look like it."""

import pytest

from trainer_service.domain.guards.collapse import below_the_base_in_training, below_the_base_in_validation, rising_loss
from trainer_service.domain.spec.thresholds import Thresholds

HERE = Thresholds()


def validated(base: float, *scores: float, problems: int = 100) -> list[dict[str, float]]:
    """Steps, every second of which is validated."""
    steps: list[dict[str, float]] = [{"reward_mean": 0.4, "base_score": base}]
    for score in scores:
        steps += [{"reward_mean": 0.4}, {"validation_score": score, "validation_problems": float(problems)}]
    return steps


def test_a_policy_below_its_base_by_interval_is_one() -> None:
    said = below_the_base_in_validation(validated(0.41, 0.44, 0.0), HERE)
    assert said.startswith("the policy is worse than its base: it scores 0.000 on 100 validation problems, where")
    assert "the base scored 0.410" in said
    assert below_the_base_in_validation(validated(0.41, 0.0, problems=40), HERE)


@pytest.mark.parametrize(
    "steps",
    [
        validated(0.41, 0.30),  # by chance once in ten
        validated(0.41, 0.6),
        validated(0.0, 0.0),
        validated(0.41, 0.0, problems=12),  # too few to say
        validated(-2.0, -9.0),  # a reward of another range
        [*validated(0.41, 0.0), {"reward_mean": 0.4}],  # said at the step that was validated
        validated(0.41, 0.0)[1:],  # the base was not validated
    ],
)
def test_what_may_be_chance_or_is_not_known_is_none(steps: list[dict[str, float]]) -> None:
    assert below_the_base_in_validation(steps, HERE) == ""


def sampled(*shares: float, groups: int = 16) -> list[dict[str, float]]:
    return [{"reward_mean": share, "verdict_passed": share, "groups": float(groups)} for share in shares]


def test_programs_that_no_longer_pass_are_seen_without_a_validation() -> None:
    said = below_the_base_in_training(sampled(0.41, 0.39, 0.43, 0.4, *[0.0] * 5), HERE)
    assert said.startswith(
        "the policy is worse than at its start: 0% of its programs pass in the last 5 steps, where 41%"
    )


@pytest.mark.parametrize(
    "steps",
    [
        sampled(*[0.41] * 3, *[0.31] * 5),
        sampled(*[0.05] * 3, *[0.0] * 50),  # there was little to lose
        sampled(*[0.41] * 3, 0.0, 0.0),
        sampled(*[0.41] * 3, *[0.0] * 5, groups=1),
        sampled(*[0.2] * 3, *[0.9] * 20),
        [step | {"stage": 1.0} for step in sampled(*[0.41] * 3, *[0.0] * 5)],  # of other problems
        [{"reward_mean": 0.4}] * 3 + [{"reward_mean": 0.0}] * 9,
    ],
)
def test_chance_in_training_is_no_collapse(steps: list[dict[str, float]]) -> None:
    assert below_the_base_in_training(steps, HERE) == ""


def test_a_loss_that_doubles_is_one_and_one_that_falls_is_none() -> None:
    def losses(*values: float) -> list[dict[str, float]]:
        return [{"loss": value} for value in values]

    assert rising_loss(losses(2.0, 1.9, 2.1, 3.0, 4.1, 5.0, 6.0), HERE).startswith("the loss is 5.03 in the last 3")
    assert rising_loss(losses(2.0, 1.9, 2.1, 3.0, 4.1, 1.0, 6.0), HERE) == ""
    assert rising_loss(losses(2.0, 1.5, 1.2, 1.0, 0.8, 0.7, 0.6), HERE) == ""
    assert rising_loss([step | {"reward_mean": 0.5} for step in losses(0.01, 0.0, 0.0, 0.3, 0.3, 0.3)], HERE) == ""


def test_each_can_be_turned_off() -> None:
    off = Thresholds(collapse_confidence=0, loss_rise=0)
    assert below_the_base_in_validation(validated(0.41, 0.0), off) == ""
    assert below_the_base_in_training(sampled(*[0.41] * 3, *[0.0] * 5), off) == ""
    assert rising_loss([{"loss": 1.0}] * 3 + [{"loss": 9.0}] * 3, off) == ""
