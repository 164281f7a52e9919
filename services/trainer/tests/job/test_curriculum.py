"""Draws under a curriculum: what they weigh, what is left to chance, where stages end; a restart changes none."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet_kit.errors import InvalidArgument
from trainer_service.domain.spec.curriculum import Curriculum, Kind, Stage
from trainer_service.job.samples.curriculum import Draws, Evidence

BATCH = 4
KINDS = [Kind(1 + place % 5) for place in range(40)]


def told(place: int, rate: float, random: Random, size: int = 8) -> Evidence:
    passed = [random.random() < rate for _ in range(size)]
    return Evidence.of(place, passed, [float(one) for one in passed])


def run(draws: Draws, steps: int, rate: Callable[[int], float], random: Random) -> list[list[int]]:
    """The places that each step drew; `rate`: the chance of a problem that a completion passes."""
    drawn = []
    for _ in range(steps):
        drawn.append([draws.draw() for _ in range(BATCH)])
        draws.learn([told(place, rate(place), random) for place in drawn[-1]])
    return drawn


groups = st.lists(
    st.builds(
        Evidence,
        place=st.integers(0, len(KINDS) - 1),
        passed=st.floats(0, 1),
        signal=st.floats(0, 2),
        size=st.integers(1, 64),
    ),
    max_size=12,
)


@given(
    exploration=st.floats(0.001, 1),
    steps=st.lists(groups, max_size=8),
    low=st.integers(1, 5),
)
def test_probabilities_are_one_together_and_none_is_below_its_floor(
    exploration: float, steps: list[list[Evidence]], low: int
) -> None:
    stages = (Stage(max_difficulty=low, steps=3), Stage(pass_rate=0.9, min_difficulty=low), Stage())
    draws = Draws(Curriculum(exploration, stages), KINDS, seed=0)
    for evidence in steps:
        places = list(draws.probabilities)
        assert sum(draws.probabilities.values()) == pytest.approx(1)
        assert min(draws.probabilities.values()) >= exploration / len(places) * (1 - 1e-9)
        assert draws.draw() in places
        metrics = draws.learn(evidence)
        assert 1 - 1e-9 <= metrics["effective_problems"] <= len(places) * (1 + 1e-9)
        assert 0 <= metrics["estimated_pass_rate"] <= 1


@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(0, 2**16))
def test_a_restart_changes_no_draw(seed: int, restart: int, luck: int) -> None:
    stages = (Stage(max_difficulty=2, steps=2), Stage(pass_rate=0.4), Stage(min_difficulty=2))
    curriculum = Curriculum(0.1, stages)
    whole, first = (Draws(curriculum, KINDS, seed) for _ in range(2))
    rates = [Random(luck + place).random() for place in range(len(KINDS))]
    expected = run(whole, 9, rates.__getitem__, Random(luck))
    random = Random(luck)
    drawn = run(first, restart, rates.__getitem__, random)
    first.draw()  # of a step that is lost
    second = Draws(curriculum, KINDS, seed)
    second.restore(first.state())
    assert drawn + run(second, 9 - restart, rates.__getitem__, random) == expected
    assert second.state() == whole.state()


def test_another_seed_draws_in_another_order() -> None:
    orders = [[draws.draw() for _ in KINDS] for draws in (Draws(Curriculum(0.1), KINDS, seed) for seed in (1, 2))]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(len(KINDS)))  # none twice while there are others


def test_problems_that_tell_nothing_become_rare() -> None:
    """Of one difficulty, so that only the problems themselves can tell."""
    kinds = [Kind(1)] * 40
    hopeless = set(range(24))
    shares = {}
    for exploration in (0.1, 1.0):
        drawn = run(
            Draws(Curriculum(exploration), kinds, 0), 60, lambda place: 0.0 if place in hopeless else 0.5, Random(3)
        )
        late = [place for step in drawn[30:] for place in step]
        shares[exploration] = sum(place in hopeless for place in late) / len(late)
    assert shares[1.0] == pytest.approx(24 / 40, abs=0.1)
    assert shares[0.1] < 0.35


def test_a_difficulty_speaks_for_its_problems_that_are_not_yet_seen() -> None:
    kinds = [Kind(1 if place < 100 else 5) for place in range(200)]
    draws = Draws(Curriculum(0.1), kinds, 0)
    for _ in range(10):
        places = [draws.draw() for _ in range(8)]
        draws.learn([Evidence(place, *((0.5, 0.25) if place < 100 else (0.0, 0.0)), 8, 0.5) for place in places])
    assert draws.probabilities[99] > 3 * draws.probabilities[199]


def test_the_signal_of_a_group_is_the_variance_of_its_rewards() -> None:
    half = Evidence.of(0, [True, False], [1.0, 0.0])
    assert (half.passed, half.signal, half.size) == (0.5, 0.5, 2)
    assert Evidence.of(0, [False, False], [0.25, 0.75]).signal == 0.125  # none passes, and there is much to learn
    assert Evidence.of(0, [True] * 8, [1.0] * 8).signal == 0
    assert Evidence.of(0, [True], [1.0]).signal == 0


def test_what_is_drawn_on_purpose_does_not_move_the_pass_rate() -> None:
    """Half of the problems always pass, half pass by even chance: those are drawn more often."""
    kinds = [Kind(1)] * 400
    draws, random = Draws(Curriculum(0.1), kinds, 0), Random(5)
    drawn = run(draws, 150, lambda place: 1.0 if place % 2 else 0.5, random)
    assert sum(place % 2 for step in drawn[50:] for place in step) < 0.4 * 100 * BATCH
    assert draws.pass_rate == pytest.approx(0.75, abs=0.06)


@pytest.mark.parametrize(("passed", "ends"), [(0.9, 1), (0.2, 4)])
def test_a_stage_ends_at_its_pass_rate_or_after_its_steps(passed: float, ends: int) -> None:
    stages = (Stage(max_difficulty=2, pass_rate=0.7, steps=4), Stage(min_difficulty=3))
    draws = Draws(Curriculum(0.1, stages), KINDS, 0)
    seen: list[float] = []
    for _ in range(6):
        places = [draws.draw() for _ in range(BATCH)]
        metrics = draws.learn([Evidence(place, passed, 0.1, 8, passed) for place in places])
        seen.append(metrics["stage"])
        assert all((KINDS[place].difficulty <= 2) == (metrics["stage"] == 1) for place in places)
    assert seen == [1.0] * ends + [2.0] * (6 - ends)


def test_a_step_that_the_platform_failed_ends_no_stage_by_its_pass_rate() -> None:
    draws = Draws(Curriculum(0.1, (Stage(pass_rate=0.4), Stage())), KINDS, 0)
    draws.learn([])
    assert draws.learn([])["stage"] == 1


def test_stages_select_by_difficulty_and_by_tags() -> None:
    kinds = [Kind(1, ("text",)), Kind(2, ("text", "lists")), Kind(3, ("lists",)), Kind(3)]
    cases: Sequence[tuple[Stage, list[int]]] = [
        (Stage(), [0, 1, 2, 3]),
        (Stage(min_difficulty=2), [1, 2, 3]),
        (Stage(max_difficulty=2), [0, 1]),
        (Stage(tags=("lists", "graphs")), [1, 2]),
        (Stage(min_difficulty=2, max_difficulty=2, tags=("text",)), [1]),
    ]
    for stage, expected in cases:
        assert list(Draws(Curriculum(1.0, (stage,)), kinds, 0).probabilities) == expected
    with pytest.raises(InvalidArgument, match="stage 2 of the curriculum has no problem left"):
        Draws(Curriculum(1.0, (Stage(steps=1), Stage(min_difficulty=4))), kinds, 0)
