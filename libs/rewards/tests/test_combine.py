"""The formulas of docs/rewards.md, on numbers that can be checked by hand."""

import math
import random

import pytest

from ratchet_rewards import Component, Measured, Reward, is_vetoed, rewards, score

WEIGHTED = Reward(
    components=(Component("tests_passed", 0.7), Component("style", 0.2), Component("length", 0.1)),
    combination="weighted_sum",
)


def seen(passed: float, style: float, length: float = 0.0, tampered: bool = False) -> Measured:
    values = {"tests_passed": passed, "style": style, "length": length}
    return Measured(values, passed=passed == 1.0, tampered=tampered)


def test_a_weighted_sum_is_over_the_sum_of_the_weights() -> None:
    assert rewards(WEIGHTED, [seen(1, 1, 1), seen(1, 0.5), seen(0, 0.5, 1)], 1) == pytest.approx([1.0, 0.8, 0.2])
    doubled = Reward(components=(Component("tests_passed", 1.4), Component("style", 0.6)), combination="weighted_sum")
    assert score(doubled, seen(1, 0), 1) == pytest.approx(0.7)
    unwanted = Reward(components=(Component("style", -1.0), Component("tests_passed")), combination="weighted_sum")
    assert score(unwanted, seen(0, 1), 1) == -0.5


def test_what_counts_for_passing_programs_only_is_at_its_worst_for_others() -> None:
    reward = Reward(components=(Component("tests_passed"), Component("style", passing_only=True)))
    assert rewards(reward, [seen(0, 1), seen(1, 1)], 1) == [0.0, 1.0]
    copied = Reward(components=(Component("tests_passed"), Component("style", -1.0, passing_only=True)))
    assert rewards(copied, [seen(0, 0), seen(1, 0)], 1) == [-0.5, 0.5]


@pytest.mark.parametrize("combination", ["weighted_sum", "lexicographic"])
def test_a_veto_earns_the_least_there_is_and_so_does_tampering(combination: str) -> None:
    components = (Component("tests_passed"), Component("style", veto_below=0.5))
    reward = Reward(components=components, combination=combination)
    vetoed, tampering = seen(1, 0.4), seen(1, 1, tampered=True)
    assert [is_vetoed(reward, one) for one in (vetoed, tampering, seen(0, 0.5))] == [True, True, False]
    assert rewards(reward, [vetoed, tampering], 1) == [0.0, 0.0]


def test_gdpo_gives_each_component_the_same_say_in_its_group() -> None:
    """Two of four pass; style differs by little, and counts as much."""
    reward = Reward(components=(Component("tests_passed"), Component("style")), combination="gdpo")
    group = [seen(1, 0.51), seen(1, 0.50), seen(0, 0.51), seen(0, 0.50)]
    found = rewards(reward, group, 1)
    # (x - mean) / std = 0.866, over (4 - 1) / 2 = 1.5
    assert found == pytest.approx([0.57735, 0.0, 0.0, -0.57735], abs=1e-4)
    assert rewards(reward, [seen(1, 1)] * 4, 1) == [0.0] * 4
    assert rewards(reward, [seen(1, 1)], 1) == [0.0]
    assert rewards(reward, [], 1) == []
    assert score(reward, group[0], 1) == pytest.approx(0.755)


def test_a_lexicographic_reward_gives_the_first_component_the_last_word() -> None:
    ordered = Reward(
        components=(Component("tests_passed"), Component("style"), Component("length")), combination="lexicographic"
    )
    found = rewards(ordered, [seen(0, 1, 1), seen(1, 0, 0), seen(1, 0, 1), seen(1, 0.1, 0), seen(1, 1, 1)], 1)
    assert found == sorted(found)
    assert len(set(found)) == 5
    assert (found[-1], score(ordered, seen(0, 0), 1)) == (1.0, 0.0)


@pytest.mark.parametrize("combination", ["weighted_sum", "gdpo", "lexicographic"])
def test_whatever_is_measured_a_reward_is_from_minus_one_to_one(combination: str) -> None:
    draw = random.Random(0)
    for _ in range(300):
        weights = [None if combination == "lexicographic" else draw.uniform(-5, 5) for _ in range(2)]
        reward = Reward(
            components=(Component("style", weights[0]), Component("loud", weights[1], program="x")),
            combination=combination,
        )
        group = [
            Measured({"style": draw.choice([0, 0.5, 1]), "loud": draw.uniform(-9, 9)}, passed=draw.random() < 0.5)
            for _ in range(draw.randint(1, 9))
        ]
        found = rewards(reward, group, draw.randint(1, 9))
        assert all(math.isfinite(one) and -1 - 1e-9 <= one <= 1 + 1e-9 for one in found)
