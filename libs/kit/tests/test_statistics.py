import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet_kit.statistics import Estimate, wilson


def test_wilsons_interval() -> None:
    # scipy.stats.binomtest(300, 1000).proportion_ci(method="wilson")
    estimate = wilson(0.3, 1000, 1.959964)
    assert (estimate.low, estimate.high) == pytest.approx((0.272405, 0.329121), abs=1e-5)


def test_of_nothing_nothing_is_known() -> None:
    assert wilson(0.0, 0, 3.0) == Estimate(0.0, 0.0, 1.0)


@given(st.floats(0, 1), st.integers(1, 10_000), st.floats(0, 10))
def test_the_mean_is_within_and_the_ends_are_within_bounds(mean: float, n: int, z: float) -> None:
    estimate = wilson(mean, n, z)
    assert 0 <= estimate.low <= mean <= estimate.high <= 1
