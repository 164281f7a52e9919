"""The variance of a mean over families, by its definition."""

import numpy as np
import pytest

from eval_service.domain.clusters import Clusters, Mean, t_quantile


def families(*sizes: int) -> list[str]:
    return [f"family {number}" for number, size in enumerate(sizes) for _ in range(size)]


def test_problems_that_stand_alone_give_the_plain_variance() -> None:
    values = np.array([0.0, 0.5, 1.0, 0.25])
    for clusters in (Clusters([""] * 4), Clusters(list("abcd"))):
        mean = Mean.of(values, clusters)
        assert (mean.value, mean.variance) == pytest.approx((values.mean(), values.var(ddof=1) / 4))
        assert mean.degrees == pytest.approx(3)


def test_families_of_one_size_give_the_variance_of_their_means() -> None:
    values = np.random.default_rng(1).random(30)
    mean = Mean.of(values, Clusters(families(*[5] * 6)))
    assert mean.variance == pytest.approx(values.reshape(6, 5).mean(1).var(ddof=1) / 6)
    assert mean.degrees == pytest.approx(5)


def test_the_variance_is_right_on_average_where_sizes_differ() -> None:
    """CR2 is unbiased when the problems are in truth independent, whatever the families."""
    clusters, generator = Clusters([*families(9, 5, 2), "", ""]), np.random.default_rng(2)
    variances = [Mean.of(generator.standard_normal(18), clusters).variance for _ in range(20_000)]
    assert np.mean(variances) == pytest.approx(1 / 18, rel=0.02)


@pytest.mark.parametrize("sizes", [(9, 5, 2, 1, 1), (3, 2, 1), (40, 1, 1)])
def test_degrees_of_freedom_are_satterthwaites(sizes: tuple[int, ...]) -> None:
    """2 E^2 / Var of the variance, from the covariance matrix of the families' terms."""
    n, m = np.array(sizes, dtype=float), sum(sizes)
    scale = 1 / np.sqrt(1 - n / m)
    covariance = np.outer(scale, scale) * (np.diag(n) - np.outer(n, n) / m)
    expected = np.trace(covariance) ** 2 / (covariance**2).sum()
    assert Clusters(families(*sizes)).degrees == pytest.approx(expected)


def test_the_quantile_is_students() -> None:
    assert t_quantile(10, 0.95) == pytest.approx(2.2281, abs=1e-4)  # any table of it
    assert t_quantile(1e9, 0.95) == pytest.approx(1.95996, abs=1e-4)
