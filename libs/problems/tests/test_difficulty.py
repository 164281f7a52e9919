import pytest

from ratchet_problems import difficulty, load


@pytest.mark.parametrize(
    ("rate", "level"),
    [(1, 1), (0.81, 1), (0.8, 2), (0.75, 2), (0.6, 3), (0.5, 3), (0.4, 4), (0.25, 4), (0.2, 5), (0, 5)],
)
def test_difficulties_are_fifths_of_the_pass_rate(rate: float, level: int) -> None:
    assert difficulty.of_pass_rate(rate) == level


def test_problems_are_ordered_from_easy_to_hard() -> None:
    one, two, three, unknown = load("basics", limit=4)
    found = difficulty.by_pass_rate([one, two, three, unknown], {one.id: 0.0, two.id: 1.0, three.id: 0.5})
    assert [(problem.id, problem.difficulty) for problem in found] == [(two.id, 1), (three.id, 3), (one.id, 5)]
