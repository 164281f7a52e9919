"""What `tests/bench/simulated_credit.py` measures, in small, with seeds: credit by turn makes the gradient clearer."""

import pytest

from tests.bench.simulated_credit import by_episode, by_turn, compared

GROUPS = 150


@pytest.mark.parametrize(
    ("discount", "by_tests", "least"), [(1.0, False, 1.0), (0.9, False, 1.05), (1.0, True, 1.3), (0.9, True, 1.8)]
)
def test_answers_in_the_same_place_tell_more_than_episodes(discount: float, by_tests: bool, least: float) -> None:
    assert compared(by_turn(discount), by_tests, GROUPS, seed=1) > least


def test_of_itself_credit_by_episode_is_as_clear() -> None:
    assert compared(by_episode, True, 20, seed=1) == 1
