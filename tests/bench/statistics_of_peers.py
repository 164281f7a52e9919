"""What gbstats and statsmodels say of the data of services/gateway/tests/unit/test_statistics.py, as JSON on stdout.

Runs in .venvs/peers (gbstats holds numpy below 2), which `make bench` makes: `.venvs/peers/bin/python
tests/bench/statistics_of_peers.py`. Imported elsewhere, it gives the data only.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def units(number: int, phase: float, shift: float) -> tuple[Values, Values, Values]:
    """Counts, totals and the means before of units that have requests of their own number."""
    i = np.arange(number, dtype=float)
    counts, before = 1.0 + (i * 7) % 5, np.sin(i + phase)
    return counts, counts * (2 + shift + 0.5 * before + 0.3 * np.cos(3 * i + phase)), before


FIRST, SECOND = units(200, 0.0, 0.0), units(200, 0.5, 0.1)
PROPORTIONS = (56, 70, 48, 80)
"""Passed and all of one side, then of the other."""


def main() -> None:
    from gbstats.frequentist.tests import (
        FrequentistConfig,
        SequentialConfig,
        SequentialTwoSidedTTest,
        TwoSidedTTest,
    )
    from gbstats.models.statistics import (
        RatioStatistic,
        RegressionAdjustedStatistic,
        SampleMeanStatistic,
        compute_theta,
    )
    from statsmodels.stats import power, proportion
    from statsmodels.stats.multitest import multipletests

    def plain(values: Values) -> Any:
        return SampleMeanStatistic(n=len(values), sum=values.sum(), sum_squares=(values**2).sum())

    def ratio(counts: Values, totals: Values, _: Values) -> Any:
        products = (counts * totals).sum()
        return RatioStatistic(
            n=len(counts), m_statistic=plain(totals), d_statistic=plain(counts), m_d_sum_of_products=products
        )

    def adjusted(counts: Values, totals: Values, before: Values) -> Any:
        means = totals / counts
        products = (means * before).sum()
        return RegressionAdjustedStatistic(
            n=len(means),
            post_statistic=plain(means),
            pre_statistic=plain(before),
            post_pre_sum_of_products=products,
            theta=0.0,
        )

    def shown(result: Any) -> list[float]:
        return [result.expected, *result.ci, result.p_value]

    absolute = {"difference_type": "absolute", "alpha": 0.05}
    a, b = ratio(*FIRST), ratio(*SECOND)
    past_a, past_b = adjusted(*FIRST), adjusted(*SECOND)
    past_a.theta = past_b.theta = compute_theta(past_a, past_b)
    x, n, y, m = PROPORTIONS
    numbers = {
        "welch": shown(TwoSidedTTest(a, b, FrequentistConfig(**absolute)).compute_result()),
        "sequence": shown(SequentialTwoSidedTTest(a, b, SequentialConfig(**absolute)).compute_result()),
        "past": shown(TwoSidedTTest(past_a, past_b, FrequentistConfig(**absolute)).compute_result()),
        "proportions": proportion.confint_proportions_2indep(x, n, y, m, method="agresti-caffo", compare="diff"),
        "units": [
            power.TTestIndPower().solve_power(effect, alpha=0.05, power=wanted)
            for effect, wanted in ((0.5, 0.8), (0.2, 0.9))
        ],
        "holm": multipletests([0.01, 0.04, 0.03, 0.005], method="holm")[0].tolist(),
    }
    print(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
