"""The balance of a set."""

from dataclasses import asdict, replace

from ratchet_problems import load
from ratchet_problems.balance import MOST_NAMED, Balance, Balancer, Quantiles

FIRST, SECOND, THIRD = load("composed/test", limit=3)


def test_problems_are_counted_as_they_go_by() -> None:
    problems = [
        replace(FIRST, tags=("list", "sort", "list"), difficulty=3, references=("1234",)),
        replace(SECOND, tags=("sort",), difficulty=1, references=()),
        replace(THIRD, tags=(), difficulty=3, references=("12", "a second one")),
    ]
    balancer = Balancer()
    assert list(balancer.of(problems)) == problems
    found = balancer.balance()
    assert found.tags == {"sort": 2, "list": 1}
    assert list(found.difficulties.items()) == [("1", 1), ("3", 2)]
    assert found.languages == {"python": 3}
    assert (found.reference.least, found.reference.most) == (2, 4), "of those that have one, the first"
    assert found.prompt.most == max(len(problem.prompt) for problem in problems)
    assert found.tests.median == sorted(len(problem.tests) for problem in problems)[1]
    assert Balance.from_json(asdict(found)) == found


def test_quantiles_are_values_that_occur() -> None:
    assert Quantiles.of(range(101)) == Quantiles(0, 5, 25, 50, 75, 95, 100)
    assert Quantiles.of([7]) == Quantiles(*[7.0] * 7)
    assert Quantiles.of([]) is None


def test_the_most_frequent_tags_are_told() -> None:
    balancer = Balancer()
    for place in range(MOST_NAMED + 5):
        list(balancer.of([replace(FIRST, tags=("often", f"rare{place}"))]))
    tags = balancer.balance().tags
    assert (len(tags), tags["often"]) == (MOST_NAMED, MOST_NAMED + 5)
