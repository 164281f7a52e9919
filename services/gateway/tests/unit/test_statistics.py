"""The numbers of experiments. Where a peer computes the same, its numbers stand here: `make bench` runs them live
(tests/bench/statistics_of_peers.py)."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gateway_service.domain.statistics import horizons, power, sequences
from gateway_service.domain.statistics.conclusions import Standing, holm_levels, standing
from gateway_service.domain.statistics.imbalance import sample_ratio
from gateway_service.domain.statistics.moments import Mean, Moments, Products, adjusted, mean, of_one_spread, paired
from gateway_service.domain.statistics.quantiles import quantile
from gateway_service.domain.statistics.strata import Cell, Strata, difference
from ratchet_kit.statistics import Estimate

GBSTATS_MIXTURE = 5000 / (-2 * math.log(0.05) + math.log(-2 * math.log(0.05) + 1))
"""That of gbstats' sequential_tuning_parameter of 5,000, which is an approximation of ours."""


def units(number: int, phase: float, shift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, totals and the means before of units that have requests of their own number."""
    i = np.arange(number)
    counts, before = 1.0 + (i * 7) % 5, np.sin(i + phase)
    return counts, counts * (2 + shift + 0.5 * before + 0.3 * np.cos(3 * i + phase)), before


@pytest.fixture
def first() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return units(200, 0.0, 0.0)


@pytest.fixture
def second() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return units(200, 0.5, 0.1)


class TestAsPeers:
    def test_a_ratio_at_a_fixed_horizon(self, first, second) -> None:
        # gbstats 0.8.0: TwoSidedTTest of two RatioStatistic, difference_type="absolute"
        finding = horizons.welch(mean(Moments.of(*second[:2])), mean(Moments.of(*first[:2])), 0.05)
        assert finding.difference.value == pytest.approx(0.09801433950349114)
        assert (finding.difference.low, finding.difference.high) == pytest.approx(
            (0.008228559795714, 0.187800119211268)
        )
        assert finding.p_value == pytest.approx(0.032467964328331655)

    def test_a_sequence(self, first, second) -> None:
        # gbstats 0.8.0: SequentialTwoSidedTTest of the same
        gap = mean(Moments.of(*second[:2])) - mean(Moments.of(*first[:2]))
        found = sequences.interval(gap, 0.05, GBSTATS_MIXTURE)
        assert (found.low, found.high) == pytest.approx((-0.08858952804296344, 0.2846182070499457))
        assert sequences.p_value(gap, GBSTATS_MIXTURE) == pytest.approx(0.5228196123515292)
        assert sequences.mixture(5000, 0.05) == pytest.approx(GBSTATS_MIXTURE, rel=0.05)

    def test_with_the_past_taken_out(self, first, second) -> None:
        # gbstats 0.8.0: TwoSidedTTest of two RegressionAdjustedStatistic
        plain = [Moments.of(np.ones(200), totals / counts, before) for counts, totals, before in (first, second)]
        of_first, of_second = adjusted(plain)
        finding = horizons.welch(of_second, of_first, 0.05)
        # its coefficient is of all units together, ours of each variant's about its own mean
        assert finding.difference.value == pytest.approx(0.09977729108735556, rel=1e-4)
        assert (finding.difference.low, finding.difference.high) == pytest.approx((0.057946756, 0.141607825), rel=1e-3)
        assert finding.p_value == pytest.approx(3.7728794330949e-06, rel=1e-2)

    def test_a_quantile_of_sticky_units(self) -> None:
        # gbstats 0.8.0: QuantileClusteredStatistic; it scales its interval, we move ours: nearly the same
        i = np.arange(4000)
        values = np.abs(np.sin(i * 1.7)) + 0.3 * np.abs(np.sin(i % 150 * 0.9))
        found = quantile(values.tolist(), [str(unit) for unit in i % 150], 0.95)
        assert found.value == pytest.approx(1.2575299567930607)
        assert found.variance**0.5 == pytest.approx(0.004733618404173579, rel=0.05)

    def test_welch(self, first, second) -> None:
        a, b = (totals / counts for counts, totals, _ in (first, second))
        theirs = stats.ttest_ind(b, a, equal_var=False)
        finding = horizons.welch(*(mean(Moments.of(np.ones(200), values)) for values in (b, a)), 0.05)
        interval = theirs.confidence_interval()
        assert finding.p_value == pytest.approx(theirs.pvalue)
        assert (finding.difference.low, finding.difference.high) == pytest.approx((interval.low, interval.high))

    def test_the_same_units_in_both(self, first, second) -> None:
        a, b = (totals / counts for counts, totals, _ in (first, second))
        theirs = stats.ttest_rel(b, a)
        one, other = (Moments.of(np.ones(200), values) for values in (b, a))
        shared = Products(200, 200.0, a.sum(), b.sum(), (a * b).sum())
        finding = horizons.paired(paired(one, other, shared), 0.05)
        interval = theirs.confidence_interval()
        assert finding.p_value == pytest.approx(theirs.pvalue)
        assert (finding.difference.low, finding.difference.high) == pytest.approx((interval.low, interval.high))

    def test_shares_of_independent_requests(self) -> None:
        # statsmodels 0.14: confint_proportions_2indep(56, 70, 48, 80, method="agresti-caffo"), whose half width is
        # 1.959964 * sqrt(p q / (n + 2) of both): ours has n + 1 for n + 2, and Student's quantile
        one, other = (mean(Moments.of(np.ones(n), np.arange(n) < x), bounded=True) for x, n in ((56, 70), (48, 80)))
        half = 1.959964 * (one.variance * 71 / 72 + other.variance * 81 / 82) ** 0.5
        assert half == pytest.approx((0.335758455 - 0.052452927) / 2, rel=1e-6)

    @pytest.mark.parametrize(("effect", "power_of", "theirs"), [(0.5, 0.8, 63.765), (0.2, 0.9, 526.333)])
    def test_units_at_a_fixed_horizon(self, effect: float, power_of: float, theirs: float) -> None:
        # statsmodels 0.14: TTestIndPower().solve_power(effect, alpha=0.05, power=...)
        assert power.fixed_units(effect, 1.0, 0.05, power_of) == math.ceil(theirs)


class TestSequences:
    def test_narrowest_where_it_is_tuned(self) -> None:
        r = sequences.mixture(1000, 0.05)
        widths = {n: sequences.width(n, 0.05, r) * n**-0.5 * 1000**0.5 for n in (100, 1000, 10_000)}
        other = sequences.mixture(100, 0.05)
        assert sequences.width(1000, 0.05, r) < sequences.width(1000, 0.05, other)
        assert widths[100] > widths[1000] > widths[10_000]

    @given(st.floats(-5, 5), st.floats(1e-6, 10), st.integers(40, 100_000), st.floats(0.001, 0.3))
    def test_the_p_value_is_the_interval_turned_about(
        self, value: float, variance: float, n: int, alpha: float
    ) -> None:
        estimate, r = Mean(value, variance, n), sequences.mixture(1000, 0.05)
        found = sequences.interval(estimate, alpha, r)
        p = sequences.p_value(estimate, r)
        if abs(p - alpha) > 1e-9:
            assert (p < alpha) == (not found.low <= 0 <= found.high)

    def test_unknown_variance_shows_nothing(self) -> None:
        assert sequences.p_value(Mean(1.0, math.inf, 100), 300) == 1.0


class TestMoments:
    def test_a_unit_with_many_requests_is_one_unit(self) -> None:
        few = mean(Moments.of(np.full(50, 10.0), np.repeat([10.0, 0.0], 25)))
        many = mean(Moments.of(np.ones(500), np.repeat([1.0, 0.0], 250)))
        assert few.value == many.value == 0.5
        assert few.variance > 9 * many.variance

    def test_no_error_yet_is_not_certainty(self) -> None:
        assert mean(Moments.of(np.ones(50), np.zeros(50)), bounded=True).variance > 0

    @pytest.mark.parametrize("value", [0.1, 3.7e-06, 1e12 / 3])
    def test_what_rounding_leaves_is_no_difference(self, value: float) -> None:
        """Of two variants whose values are all the same the last digits of the sums may differ."""
        once = mean(Moments.of([1.0] * 40, [value] * 40))
        thrice = mean(Moments.of([3.0] * 40, [value + value + value] * 40))
        rounded = Mean(thrice.value * (1 + 1e-15), thrice.variance, thrice.units) - once
        r = sequences.mixture(2000, 0.05)
        assert sequences.p_value(rounded, r) > 0.9
        found = sequences.interval(rounded, 0.05, r)
        assert found.low < 0 < found.high
        assert found.high < value
        assert horizons.welch(thrice, once, 0.05).p_value > 0.9

    def test_the_same_units_with_counts_of_their_own(self) -> None:
        # 2,000 experiments: the variance of the difference is what the differences really vary by
        random = np.random.default_rng(5)
        gaps, variances = [], []
        for _ in range(2_000):
            level = random.normal(2.0, 1.0, 100)
            counts = random.integers(1, 6, (2, 100))
            totals = counts * (level + random.normal(0.0, 0.3, (2, 100)))
            one, other = (Moments.of(x, y) for x, y in zip(counts, totals, strict=True))
            (xa, xb), (ya, yb) = counts.astype(float), totals
            shared = Products(100, (xa * xb).sum(), (xa * yb).sum(), (ya * xb).sum(), (ya * yb).sum())
            gap = paired(one, other, shared)
            gaps.append(gap.value)
            variances.append(gap.variance)
        assert np.mean(variances) == pytest.approx(np.var(gaps), rel=0.1)

    @pytest.mark.parametrize(("passed", "differ"), [(15, 0), (15, 1), (25, 2), (30, 0)])
    def test_scores_that_hardly_differ_are_not_certain(self, passed: int, differ: int) -> None:
        """Of 30 prompts the first passes so many, and the second those but for the last few."""
        one, other = np.arange(30) < passed, np.arange(30) < passed - differ
        shared = Products(30, 30.0, other.sum(), one.sum(), (one * other).sum())
        gap = paired(*(Moments.of(np.ones(30), each) for each in (one, other)), shared, bounded=True)
        assert (gap.value, gap.units) == (pytest.approx(differ / 30), 30)
        # Agresti and Min: half a prompt more in each cell of the table, and n - 1 in place of n
        expected = (differ + 1 - differ**2 / 32) / (32 * 31)
        assert gap.variance == pytest.approx(expected)

    @pytest.mark.parametrize(("shift", "least"), [(0.0, 14.5), (1.0, 1.0)])
    def test_the_same_difference_of_all_is_not_certain(self, shift: float, least: float) -> None:
        """30 prompts whose values differ by nothing, or all by 1: as uncertain as with two others among them."""
        one, other = np.arange(30) + shift, np.arange(30)
        shared = Products(30, 30.0, other.sum(), one.sum(), (one * other).sum())
        gap = paired(*(Moments.of(np.ones(30), each) for each in (one, other)), shared)
        assert (gap.value, gap.variance) == (pytest.approx(shift), pytest.approx(2 * least**2 / 30 / 29))

    @pytest.mark.parametrize("size", [1.0, 10.0, 100.0])
    def test_units_that_all_agree_are_not_certain(self, size: float) -> None:
        """Of tokens, seconds, cost: as uncertain as with one unit of 0 and one of twice the mean among them."""
        agree = mean(Moments.of(np.full(20, size), np.full(20, 5 * size)))
        values = np.full(20, 5.0)
        values[:2] = 0.0, 10.0
        assert agree.variance == pytest.approx(stats.sem(values) ** 2)
        past = adjusted([Moments.of(np.full(30, size), np.full(30, 5 * size), np.arange(30))] * 2)
        assert past[0].variance == pytest.approx(agree.variance * 20 * 19 / 30 / 29)

    def test_a_small_variant_has_the_spread_of_all(self) -> None:
        """Of 20 units beside 1,000, where one of 20 has 30 times the value: all 20 agree in 36 % of experiments, which
        "showed" a difference at a fixed horizon."""
        random, false = np.random.default_rng(2), 0
        for _ in range(500):
            few, many = (mean(Moments.of(np.ones(n), 1 + 29 * (random.random(n) < 0.05))) for n in (20, 1000))
            one, other = of_one_spread([few, many])
            false += horizons.welch(one, other, 0.05).p_value < 0.05
        assert false <= 25
        large = [Mean(1.0, 0.01, 10_000), Mean(1.0, 0.01, 10_000)]
        assert of_one_spread(large) == large

    @pytest.mark.parametrize("size", [1.0, 1000.0])
    def test_effective_units(self, size: float) -> None:
        assert Moments.of(np.full(50, size), np.zeros(50)).effective_units == pytest.approx(50)
        assert Moments.of([*np.ones(50), 1000 * size], np.zeros(51)).effective_units < 1.11

    def test_an_ordinary_spread_is_as_it_is(self) -> None:
        values = np.random.default_rng(1).gamma(4.0, 0.5, 60)  # half of the mean
        assert mean(Moments.of(np.ones(60), values)).variance == pytest.approx(stats.sem(values) ** 2)

    def test_units_without_a_past_count_as_average_ones(self, first, second) -> None:
        counts, totals, before = first
        half = np.where(np.arange(200) % 2, before, np.nan)
        whole = adjusted([Moments.of(counts, totals, before), Moments.of(*second)])[0]
        some = adjusted([Moments.of(counts, totals, half), Moments.of(*second)])[0]
        none = adjusted([Moments.of(counts, totals), Moments.of(*second)])[0]
        assert whole.variance < some.variance < none.variance
        assert none == mean(Moments.of(counts, totals))


class TestSampleRatio:
    def test_what_fits_is_no_alarm(self) -> None:
        assert sample_ratio([5010, 4990], [1, 1]) == 1.0
        assert sample_ratio([0, 0, 0], [1, 1, 1]) == 1.0

    def test_what_does_not_fit_is(self) -> None:
        assert sample_ratio([5300, 4700], [1, 1]) < 0.001
        assert sample_ratio([9200, 800], [8, 1]) < 0.001

    def test_looked_at_each_time_it_rings_no_more_than_it_says(self) -> None:
        """500 fair assignments of 3,000 units, watched at each."""
        drawn = np.random.default_rng(5).random((500, 3000)) < 0.5
        ones = drawn.cumsum(axis=1)
        rang = 0
        for row in ones[:, 99::100]:
            rang += min(sample_ratio([one, (i + 1) * 100 - one], [1, 1]) for i, one in enumerate(row)) < 0.05
        assert rang <= 25


class TestConclusions:
    @pytest.mark.parametrize(
        ("low", "high", "margin", "expected"),
        [
            (0.01, 0.2, 0.0, Standing.BETTER),
            (-0.2, -0.01, 0.5, Standing.WORSE),
            (-0.01, 0.01, 0.02, Standing.NO_DIFFERENCE),
            (-0.01, 0.01, 0.0, Standing.UNDECIDED),
            (-0.03, 0.01, 0.02, Standing.UNDECIDED),
            (0.0, 0.0, 0.02, Standing.UNDECIDED),
        ],
    )
    def test_in_words(self, low: float, high: float, margin: float, expected: Standing) -> None:
        assert standing(Estimate((low + high) / 2, low, high), margin) is expected

    def test_holms_levels(self) -> None:
        # statsmodels 0.14: multipletests([0.01, 0.04, 0.03, 0.005], method="holm") rejects the first and the last
        p_values = [0.01, 0.04, 0.03, 0.005]
        levels = holm_levels(p_values, 0.05)
        assert levels == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 2, 0.05 / 4])
        assert [p <= level for p, level in zip(p_values, levels, strict=True)] == [True, False, False, True]

    @given(st.data())
    def test_what_holm_shows_its_interval_shows(self, data: st.DataObject) -> None:
        """Of every kind of test, bounded or not: shown by its p-value iff the interval at its level leaves out 0."""
        whole = st.integers(0, 30)
        of_unit = st.tuples(st.integers(1, 5), st.floats(0, 1), st.floats(0, 1))
        variants, r = (
            st.lists(st.lists(of_unit, min_size=2, max_size=40), min_size=2, max_size=4),
            data.draw(whole) + 50,
        )
        bounded, kind = data.draw(st.booleans()), data.draw(st.sampled_from(["welch", "paired", "sequence"]))
        groups = data.draw(variants)
        number = min(map(len, groups))
        sides = [np.array(group[:number]) for group in groups]
        first, *others = [Moments.of(side[:, 0], np.round(side[:, 0] * side[:, 1], 1)) for side in sides]

        def finding(other: Moments, level: float) -> horizons.Finding:
            a, b = mean(other, bounded=bounded), mean(first, bounded=bounded)
            if kind == "welch":
                return horizons.welch(a, b, level)
            if kind == "paired":
                return horizons.paired(a - b, level)
            return horizons.Finding(sequences.interval(a - b, level, r), sequences.p_value(a - b, r))

        found = [other for other in others if first.x and other.x]
        p_values = [finding(other, 0.05).p_value for other in found]
        for other, p, level in zip(found, p_values, holm_levels(p_values, 0.05), strict=True):
            interval = finding(other, level).difference
            if abs(p / level - 1) > 1e-6:
                assert (p <= level) == (interval.low > 0 or interval.high < 0), (kind, p, level, interval)


class TestPower:
    def test_a_sequence_costs_more_than_one_look(self) -> None:
        fixed, sequence = (find(0.05, 0.5, 0.05, 0.8) for find in (power.fixed_units, power.sequential_units))
        assert 1.5 * fixed < sequence < 3 * fixed

    def test_what_is_too_small_to_be_seen(self) -> None:
        assert power.fixed_units(1e-9, 1.0, 0.05, 0.8) == power.MAX_UNITS


@pytest.mark.parametrize("size", [1.0, 10.0, 100.0])
def test_what_was_never_seen_is_padded_by_units_not_by_their_requests(size: float) -> None:
    none_failed = mean(Moments.of(np.full(20, size), np.zeros(20)), bounded=True)
    one_each = mean(Moments.of(np.ones(20), np.zeros(20)), bounded=True)
    assert none_failed.variance == pytest.approx(one_each.variance)
    gap = paired(
        Moments.of(np.full(20, size), np.zeros(20)),
        Moments.of(np.full(20, size), np.zeros(20)),
        Products(20, 20 * size**2),
        bounded=True,
    )
    of_one = paired(
        Moments.of(np.ones(20), np.zeros(20)), Moments.of(np.ones(20), np.zeros(20)), Products(20, 20), bounded=True
    )
    assert gap.variance == pytest.approx(of_one.variance)


def strata(arms: np.ndarray, x: np.ndarray, y: np.ndarray) -> Strata:
    """Of counts and totals by stratum and user; `arms`: in which arm a user is in each stratum, 0 or 1."""
    kept = {
        Cell(stratum, str(arm)): (arms[stratum] == arm) & (x[stratum] > 0)
        for stratum in range(len(x))
        for arm in (0, 1)
    }
    cells = {cell: Moments.of(x[cell.stratum][mask], y[cell.stratum][mask]) for cell, mask in kept.items()}
    shared = {}
    for one, other in itertools.combinations(kept, 2):
        both = kept[one] & kept[other]
        a, b, c, d = (values[cell.stratum][both] for cell in (one, other) for values in (x, y))
        shared[one, other] = Products(int(both.sum()), a @ c, a @ d, b @ c, b @ d)
    return Strata(cells, shared)


class TestStrata:
    def test_as_a_risk_difference_of_several_tables(self) -> None:
        # statsmodels 0.14 has the weights (StratifiedTable's Mantel-Haenszel); the difference by hand, Sato's (1989)
        tables = [(60, 80, 130, 200), (30, 90, 20, 70), (200, 250, 35, 50)]
        cells = {}
        for number, (y, n, z, m) in enumerate(tables):
            cells[Cell(number, "one")] = Moments.of(np.ones(n), np.arange(n) < y)
            cells[Cell(number, "other")] = Moments.of(np.ones(m), np.arange(m) < z)
        weights = [n * m / (n + m) for _, n, _, m in tables]
        by_hand = sum(w * (y / n - z / m) for w, (y, n, z, m) in zip(weights, tables, strict=True)) / sum(weights)
        found = difference(Strata(cells), "one", "other")
        assert found is not None
        assert found.value == pytest.approx(by_hand)
        assert found.units == pytest.approx(sum(weights))

    def test_what_one_arm_alone_has_adds_nothing(self) -> None:
        both = {Cell(0, arm): Moments.of(np.ones(100), np.arange(100) < 50) for arm in ("one", "other")}
        alone = {Cell(1, "one"): Moments.of(np.ones(900), np.zeros(900)), Cell(1, "other"): Moments.of([1.0], [1.0])}
        assert difference(Strata(both | alone), "one", "other") == difference(Strata(both), "one", "other")
        assert difference(Strata(alone), "one", "other") is None
        assert difference(Strata(), "one", "other") is None

    def test_a_user_in_several_strata_is_one_user(self) -> None:
        """Users of widely different rates stay in their arm, or change it: the variance is what is seen."""
        generator, users, gaps, stated = np.random.default_rng(3), 300, [], []
        at = np.arange(users) / users
        for shares in ((0.5, 0.5, 0.5), (0.1, 0.4, 0.9)):
            for _ in range(400):
                rates = generator.beta(1, 1, users)
                place = generator.permutation(at)
                arms = np.array([(place < share).astype(int) for share in shares])
                x = generator.poisson(8, (3, users)).astype(float)
                y = generator.binomial(x.astype(int), np.clip(rates + np.array([[0.0], [0.1], [-0.2]]), 0, 1)).astype(
                    float
                )
                found = difference(strata(arms, x, y), "1", "0")
                assert found is not None
                gaps.append(found.value)
                stated.append(found.variance)
            assert np.mean(stated) == pytest.approx(np.var(gaps), rel=0.15)
            gaps.clear()
            stated.clear()


def test_a_unit_that_asks_a_thousand_times_as_often_is_one_surprise() -> None:
    """Its residual is 0 where it is nearly all of the traffic: units of the average size would add nothing."""
    sizes = np.array([1.0] * 19 + [1e6])
    fails = mean(Moments.of(sizes, np.array([0.0] * 19 + [1e6])), bounded=True)
    works = mean(Moments.of(sizes, np.zeros(20)), bounded=True)
    assert fails.variance**0.5 > 0.25
    assert works.variance**0.5 > 0.25
