import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet_kit.statistics import Comparison, Estimate, comparison_from_proto, comparison_to_proto, wilson


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


def test_a_comparison_crosses() -> None:
    estimates = Estimate(0.25, 0.2, 0.3), Estimate(0.5, 0.4, 0.6), Estimate(0.25, 0.1, 0.4)
    comparison = Comparison(*estimates, 0.01, 120, 40, 10, 90, 0.05, 0.975)
    assert comparison_from_proto(comparison_to_proto(comparison)) == comparison
