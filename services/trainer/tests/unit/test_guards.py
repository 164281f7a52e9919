"""Each guard over made-up steps: silent while all is well, a sentence once it is not."""

from datetime import UTC, datetime

import pytest

from trainer_service.domain.guards.guards import GUARDS, LEARNED_NOTHING, QUIET, Finding, examine
from trainer_service.domain.run.run import Notice
from trainer_service.domain.spec.thresholds import Thresholds

WELL = {
    "reward_mean": 0.4,
    "kl": 0.001,
    "entropy": 0.8,
    "grad_norm": 0.5,
    "loss": 0.01,
    "groups_without_signal": 0.4,
    "rewards_clipped": 0.0,
    "verdict_passed": 0.4,
    "groups": 16.0,
}
ALL = Thresholds()
OFF = Thresholds(**dict.fromkeys(Thresholds.__dataclass_fields__, 0.0))


def said(steps: list[dict[str, float]], thresholds: Thresholds = ALL) -> list[Finding]:
    return examine(steps, thresholds, len(steps), ())


def then(bad: dict[str, float], count: int = 5) -> list[dict[str, float]]:
    return [WELL] * 12 + [WELL | bad] * count


def test_a_run_that_is_well_is_left_alone() -> None:
    assert said([WELL] * 60) == []
    assert said([{}] * 60) == []
    assert said([]) == []
    improving = [WELL | {"reward_mean": n / 60, "verdict_passed": n / 60, "entropy": 1 - n / 80} for n in range(60)]
    assert said(improving) == []


@pytest.mark.parametrize(
    ("bad", "guard", "message"),
    [
        ({"kl": 1.5}, "kl", "the policy moves too far: KL was 1.50 nats a token in the last 3 steps, more than 1;"),
        ({"kl": -1.5}, "kl", "the policy moves too far: KL was 1.50 nats a token in the last 3 steps, more than 1;"),
        ({"not_finite": 1.0}, "not_finite", "the loss or its gradient was not a finite number in the last 3 steps"),
        ({"verdict_tampered": 0.4}, "tampering_stop", "the policy learns to forge its verdicts: 40% of the programs"),
        ({"verdict_passed": 0.0}, "collapse_in_training", "the policy is worse than at its start: 0% of"),
    ],
)
def test_what_no_run_comes_back_from_stops_it(bad: dict[str, float], guard: str, message: str) -> None:
    [finding] = [finding for finding in said(then(bad)) if finding.stops]
    assert finding.guard == guard
    assert finding.message.startswith(message)
    assert [finding for finding in said(then(bad, count=2)) if finding.stops] == []


@pytest.mark.parametrize(
    ("bad", "guard", "message"),
    [
        ({"entropy": 0.001}, "entropy", "completions of a prompt hardly differ: entropy is 0.001 nats a token"),
        ({"groups_without_signal": 0.95}, "no_signal", "95% of the groups of the last 5 steps have one reward, so"),
        ({"rewards_clipped": 0.031}, "reward", "the rewards of 3.1% of the completions were cut: to 1, or"),
        ({"samples_waiting": 2.0}, "samples", "the samples of 2 steps wait for the artifact store"),
        ({"samples_waiting": 2.0, "samples_lost": 1.0}, "samples", "the samples of 1 steps could not be kept"),
    ],
)
def test_the_rest_is_noticed(bad: dict[str, float], guard: str, message: str) -> None:
    [finding] = said(then(bad))
    assert (finding.guard, finding.stops) == (guard, False)
    assert finding.message.startswith(message)
    assert said(then(bad), OFF) == [] or guard in ("reward", "samples")


def test_groups_without_signal_are_of_problems_too_easy_or_too_hard() -> None:
    alike = {"groups_without_signal": 0.95}
    assert "too hard" in said(then(alike))[0].message
    assert "too easy" in said(then(alike | {"verdict_passed": 0.97}))[0].message


def test_a_gradient_is_compared_with_those_before() -> None:
    spike = WELL | {"grad_norm": 50.0}
    assert said([WELL] * 5 + [spike]) == []  # of too few steps
    assert said([WELL] * 12 + [WELL | {"grad_norm": 2.0}]) == []
    assert said([WELL] * 12 + [spike]) == [
        Finding("gradient", "the gradient's norm was 50, 100 times the usual 0.5", stops=False)
    ]


def test_what_lasts_is_said_once_in_a_while() -> None:
    steps = then({"entropy": 0.001})
    before = Notice(len(steps) - 1, "a sentence", datetime(2026, 1, 1, tzinfo=UTC), "entropy")
    assert examine(steps, ALL, len(steps), [before]) == []
    assert [one.guard for one in examine(steps, ALL, before.step + QUIET, [before])] == ["entropy"]


def test_thresholds_turn_guards_off_and_move_them() -> None:
    assert said(then({"kl": 1.5}), OFF) == []
    assert said(then({"kl": 1.5}), Thresholds(kl_limit=2)) == []
    assert [one.guard for one in said(then({"kl": 0.1}), Thresholds(kl_limit=0.05))] == ["kl"]


def test_problems_without_room_are_said_at_the_first_step() -> None:
    counted = {
        "problems": 974.0,
        "problems_left_out": 12.0,
        "validation_left_out": 0.0,
        "longest_problem_tokens": 1311.0,
    }
    assert said([WELL | counted]) == [
        Finding(
            "left_out",
            "12 of 974 problems are left out: they have no room in max_prompt_tokens; the longest has 1311 tokens",
            stops=False,
        )
    ]
    assert "974 problems, and 3 of those validated on, are" in said([counted | {"validation_left_out": 3.0}])[0].message
    assert "974 pairs are" in said([counted | {"pair_accuracy": 0.5}])[0].message
    assert said([WELL | counted, WELL]) == []


def test_names_are_given_once() -> None:
    names = [guard.name for guard in GUARDS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("steps", [1, 3, 40])
def test_a_run_of_any_length_that_learned_nothing_is_told_so_at_its_last_step(steps: int) -> None:
    nothing = [WELL | {"groups_without_signal": 1.0}] * steps

    def found(series: list[dict[str, float]], *, is_last: bool) -> bool:
        return LEARNED_NOTHING in [one.guard for one in examine(series, OFF, steps, (), is_last=is_last)]

    assert found(nothing, is_last=True)
    assert not found(nothing, is_last=False)
    assert not found([*nothing, WELL], is_last=True)
    assert not found([{"loss": 1.0}] * steps, is_last=True)
