"""What was looked at is paid for, in whatever order and under whatever name."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ratchet_kit.errors import FailedPrecondition
from registry_service.domain.tries import Look, Tries, count_tries, share_of

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
EVER = datetime.min.replace(tzinfo=UTC)


def look(number: int, **changes: object) -> Look:
    """Of candidate `number`, measured in that order, on all 164 problems; 0 is the champion."""
    one = Look(
        f"eval_{number}",
        "starter",
        f"sha256:{number}",
        BEGUN + timedelta(minutes=number),
        setup="all",
        draw=f"draw_{number}",
        problems=164,
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def tries(looks: Sequence[Look], candidate: str = "eval_1", champion: str = "eval_0", began: datetime = EVER) -> Tries:
    return count_tries("starter", candidate, champion, "sha256:0", lambda measured: began, looks)


def test_the_first_comparison_is_at_95_and_all_later_ones_together_cost_as_much() -> None:
    ones = [Tries(number, number + 1).confidence() for number in range(3)]
    assert ones == pytest.approx([0.95, 0.975, 0.99167], abs=1e-5)
    errors = [1 - Tries(number, number + 1).confidence() for number in range(10_000)]
    assert sum(errors) == pytest.approx(0.1, abs=1e-4)
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("seed", range(20))
def test_the_error_of_all_that_can_be_gated_is_5_percent_at_most_in_any_order(seed: int) -> None:
    """Half of 1 - confidence is on the side of a gain; each target's is a comparison of its own."""
    draw = random.Random(seed)
    sets = draw.choice([1, 3])
    views = [share_of(sets, target=False), *[share_of(sets, target=True)] * (sets if sets > 1 else 0)]
    looks = [
        look(number, policy_id=f"sha256:{draw.choice([0, number])}", setup=draw.choice("ab")) for number in range(30)
    ]
    of_champion = [one for one in looks if one.policy_id == "sha256:0"]
    error = 0.0
    for one in looks:
        for other in of_champion:
            if one.policy_id != "sha256:0" and one.setup == other.setup:
                found = tries(looks, one.evaluation_id, other.evaluation_id)
                error += sum((1 - found.confidence(view)) / 2 for view in views)
    assert 0.02 < error <= 0.05


def test_one_problem_less_is_no_first_try() -> None:
    """`limit` 300, 299, ... 281, each with an evaluation of both; up and down."""
    for limits in (range(300, 280, -1), range(281, 301)):
        looks = [
            one
            for place, limit in enumerate(limits)
            for one in (
                look(0, evaluation_id=f"before_{limit}", draw=f"b{limit}", setup=str(limit), problems=limit),
                look(place + 1, evaluation_id=f"after_{limit}", setup=str(limit), problems=limit),
            )
        ]
        found = []
        for limit in limits:
            seen = [replace(one, problems=min(one.problems, limit)) for one in looks]
            found.append(tries(seen, f"after_{limit}", f"before_{limit}").now)
        assert found[:3] == [1, 2, 3]
        assert found[-1] >= 19


def test_the_best_of_20_is_as_late_as_it_was_looked_at_whatever_is_gated_when() -> None:
    looks = [look(number) for number in range(21)]
    assert [tries(looks, f"eval_{number}").now for number in (1, 7, 20)] == [1, 7, 20]
    assert tries(looks[:8], "eval_7") == tries(looks, "eval_7"), "what comes later changes nothing"


def test_the_champion_measured_again_until_it_looks_bad_is_paid_for() -> None:
    seeds = [look(number, policy_id="sha256:0") for number in range(2, 21)]
    looks = [look(0), look(1), *seeds]
    found = [tries(looks, "eval_1", one.evaluation_id) for one in (look(0), *seeds)]
    assert [one.now for one in found] == list(range(1, 21))


def test_the_very_same_samples_are_one_look() -> None:
    """`ratchet gate` measures the champion each time."""
    again = [look(number, policy_id="sha256:0", draw="draw_0") for number in (2, 4)]
    looks = [look(0), look(1), look(3), *again]
    assert tries(looks, "eval_3", "eval_4") == tries(looks, "eval_3") == Tries(1, 2)


def test_what_shares_few_problems_counts_for_little() -> None:
    one_shared = [look(number, problems=1) for number in range(1, 21)]
    assert tries([look(0), *one_shared, look(21)], "eval_21") == Tries(0, 1)
    half = [look(number, problems=82) for number in range(1, 21)]
    assert tries([look(0), *half, look(21)], "eval_21") == Tries(10, 11)


def test_another_name_hides_nothing() -> None:
    """20 candidates are measured by their path, or as another model; the best is then the model's version."""
    for name in ("", "scratch"):
        others = [look(number, model=name) for number in range(1, 21)]
        own = look(21, policy_id="sha256:7")
        assert tries([look(0), *others, own], "eval_21").now == 21
        assert tries([look(0), *others, look(21)], "eval_21").now == 1, "models of others are not this model's tries"


def test_only_what_came_since_the_champion_is_to_be_beaten_counts() -> None:
    looks = [look(number) for number in range(5)]
    assert tries(looks, "eval_4", began=look(3).start_time).now == 2


def test_an_evaluation_from_before_problems_were_kept_is_made_anew() -> None:
    with pytest.raises(FailedPrecondition, match="eval_9 are not known well enough: measure anew"):
        tries([look(0)], "eval_9")
