"""Credit by turn, by numbers that were worked out by hand."""

import pytest

from trainer_service.job.samples.returns import advantages


def test_an_answer_is_compared_by_what_is_gained_from_it_on() -> None:
    """Returns 1, .5 and .5, .5: the second answers gained as much, whatever the first ones did."""
    assert advantages([[0.5, 0.5], [0.0, 0.5]], 1.0, scaled=False) == [[0.25, 0.0], [-0.25, 0.0]]


def test_what_is_gained_later_counts_less() -> None:
    """Returns .25, .5, 1 and 1: whoever passes at once did better at first."""
    found = advantages([[0.0, 0.0, 1.0], [1.0]], 0.5, scaled=False)
    assert found == [[-0.375, -0.125, 0.375], [0.375]]


def test_an_answer_that_one_episode_alone_has_is_compared_with_those_before_it() -> None:
    """Returns 1, 1, 1 and 0, 0 and 0: the third is held against the second ones' mean, 1/2."""
    found = advantages([[0.0, 0.0, 1.0], [0.0, 0.0], [0.0]], 1.0, scaled=False)
    assert [[round(value, 9) for value in some] for some in found] == [
        [round(2 / 3, 9), 0.5, 0.5],
        [round(-1 / 3, 9), -0.5],
        [round(-1 / 3, 9)],
    ]


def test_the_deviation_is_that_of_all_returns_of_the_group() -> None:
    """Returns 1, .5, .5, .5: their mean is .625, and their deviation .25."""
    found = advantages([[0.5, 0.5], [0.0, 0.5]], 1.0, scaled=True)
    assert found == [pytest.approx([1, 0], abs=1e-5), pytest.approx([-1, 0], abs=1e-5)]


@pytest.mark.parametrize("episodes", [[], [[]], [[0.5]], [[0.1, 0.2], [0.1, 0.2]], [[1.0]] * 4])
def test_where_nothing_differs_nothing_is_learned(episodes: list[list[float]]) -> None:
    found = advantages(episodes, 0.9, scaled=True)
    assert [len(some) for some in found] == [len(some) for some in episodes]
    assert all(abs(value) < 1e-6 for some in found for value in some)
