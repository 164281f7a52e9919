"""`tests/bench/simulated_releases.py` in small, with seeds. Each row is a decision that was once wrong in most
releases, so a few of them show whether it is right."""

from collections import Counter

import pytest

from gateway_service.domain.releases.release import State
from tests.bench.simulated_releases import KINDS, rolled_back_for_p95, run, shown

RELEASES = 3


def states(name: str) -> Counter[State]:
    kind = next(kind for kind in KINDS if kind.name == name)
    return Counter(run((kind, number)).state for number in range(RELEASES))


@pytest.mark.parametrize(
    "name",
    ["equal: harder by 0.20 at 50 %", "equal: 4 % of all time out", "equal: 1 user of 100 asks 1,000 x"],
)
def test_what_happens_to_both_rolls_nobody_back(name: str) -> None:
    assert states(name)[State.ROLLED_BACK] == 0


@pytest.mark.parametrize(
    "name",
    [
        "worse by 0.10, easier by 0.20",
        "bad: 30 % hang",
        "bad: all broken off",
        "bad: breaks under all traffic",
        "bad: the same, no share kept",
    ],
)
def test_what_is_worse_is_never_kept(name: str) -> None:
    assert states(name) == {State.ROLLED_BACK: RELEASES}


@pytest.mark.parametrize(("requests", "spread"), [(1, 0.0), (10, 0.0), (100, 1.5)])
def test_a_candidate_at_its_bound_goes_on_in_one_of_ten(requests: int, spread: float) -> None:
    """It fails wholly for some users, and the baseline for none."""
    assert shown(requests, 0.02, spread, 40) <= 0.15  # 10 % of 40 are 4, with what chance adds
    assert shown(requests, 0.08, spread, 10) == 0


def test_an_equal_p95_rolls_nobody_back() -> None:
    assert rolled_back_for_p95(1.0, 10) == 0
    assert rolled_back_for_p95(2.0, 3) == 1
