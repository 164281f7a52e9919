"""The estimators against their definitions, by brute force."""

from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eval_service.domain.statistics import (
    Tally,
    detectable_difference,
    estimate_difference,
    estimate_pass_at_k,
    holm,
    pass_at_k,
    permutation_p_value,
    plan_difference,
)
from ratchet_kit.statistics import Estimate, mean_over_problems

tallies = st.integers(1, 6).flatmap(lambda n: st.builds(Tally, st.just(n), st.integers(0, n)))


@st.composite
def pairs(draw: st.DrawFn, largest: int) -> tuple[list[Tally], list[Tally]]:
    size = draw(st.integers(1, largest))
    lists = st.lists(tallies, min_size=size, max_size=size)
    return draw(lists), draw(lists)


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_draws_with_a_pass(case: tuple[int, int, int]) -> None:
    samples, passed, k = case
    draws = list(combinations([True] * passed + [False] * (samples - passed), k))
    assert pass_at_k(samples, passed, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@pytest.mark.parametrize(("samples", "passed", "k"), [(10_000, 3, 5_000), (100_000, 1, 10), (5_000, 4_999, 1)])
def test_pass_at_k_is_stable_where_binomials_overflow(samples: int, passed: int, k: int) -> None:
    exact = 1 - comb(samples - passed, k) / comb(samples, k)  # on Python's integers
    assert pass_at_k(samples, passed, k) == pytest.approx(exact, rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.lists(tallies, min_size=1, max_size=20))
def test_an_interval_is_around_its_value_and_within_bounds(results: list[Tally]) -> None:
    estimate = estimate_pass_at_k(results, 1)
    assert estimate.value == pytest.approx(np.mean([tally.passed / tally.samples for tally in results]))
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.high > estimate.low


def test_a_clean_sweep_is_not_certainty() -> None:
    few, many = (estimate_pass_at_k([Tally(4, 4)] * problems, 1) for problems in (5, 500))
    assert few.low < 0.6 < 0.97 < many.low < 1 == many.high
    assert estimate_pass_at_k([Tally(4, 4)], 1) == Estimate(1.0, 0.0, 1.0)
    agreed = estimate_difference([Tally(1, 1)] * 3, [Tally(1, 0)] * 3)
    assert agreed.value == 1
    assert agreed.low < 0


def test_samples_of_one_problem_are_not_independent_evidence() -> None:
    """A hundred samples of ten problems, each wholly right or wholly wrong, say no more than one sample of each."""
    once, often = ([Tally(n, n * (i % 2)) for i in range(10)] for n in (1, 100))
    assert estimate_pass_at_k(once, 1) == estimate_pass_at_k(often, 1)


def test_for_one_sample_a_problem_it_is_about_wilsons_interval() -> None:
    estimate = estimate_pass_at_k([Tally(1, 1)] * 300 + [Tally(1, 0)] * 700, 1)
    # Wilson's interval of 300 in 1000, from scipy.stats.binomtest(300, 1000).proportion_ci(method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx((0.27240, 0.32912), abs=2e-4)


@pytest.mark.parametrize("spread", [(2, 2), (0.3, 3), (0.05, 0.05)], ids=["between", "mostly wrong", "all or nothing"])
@pytest.mark.parametrize(("problems", "samples"), [(8, 4), (40, 1), (120, 4)])
def test_intervals_cover_the_truth(spread: tuple[float, float], problems: int, samples: int) -> None:
    """Over made-up sets of problems, each with a pass rate of its own. 300 rounds: 0.95 is measured to +-0.025."""
    generator, rounds = np.random.default_rng(7), 300
    hits = differences = promotions = 0

    def draw(rates: np.ndarray) -> list[Tally]:
        return [Tally(samples, int(passed)) for passed in generator.binomial(samples, rates)]

    truth = spread[0] / sum(spread)
    for _ in range(rounds):
        rates = generator.beta(*spread, size=problems)
        better = rates + 0.1 * (1 - rates)
        estimate = estimate_pass_at_k(draw(rates), 1)
        hits += estimate.low <= truth <= estimate.high
        difference = estimate_difference(draw(better), draw(rates))
        differences += difference.low <= 0.1 * (1 - truth) <= difference.high
        promotions += estimate_difference(draw(rates), draw(rates)).low > 0
    assert hits / rounds > 0.91
    assert differences / rounds > 0.91
    assert promotions / rounds < 0.05, "what is no better is rarely taken for better"


@settings(max_examples=50, deadline=None)
@given(pairs(8))
def test_the_p_value_is_the_share_of_sign_patterns_at_least_as_extreme(case: tuple[list[Tally], list[Tally]]) -> None:
    new, old = case
    differences = [a.passed / a.samples - b.passed / b.samples for a, b in zip(new, old, strict=True)]
    observed = abs(sum(differences))
    patterns = list(product((1, -1), repeat=len(differences)))
    extreme = sum(
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= observed - 1e-9 for signs in patterns
    )
    assert permutation_p_value(new, old) == pytest.approx(extreme / len(patterns))


@settings(max_examples=20, deadline=None)
@given(pairs(30))
def test_the_p_value_is_symmetric_and_repeatable(case: tuple[list[Tally], list[Tally]]) -> None:
    new, old = case
    assert permutation_p_value(new, old) == permutation_p_value(new, old) == permutation_p_value(old, new)


def test_many_problems_are_sampled_close_to_the_exact_value() -> None:
    """Forty problems, of which 28 got better and 12 worse: then it is the sign test, 2 * P(Bin(40, 1/2) >= 28)."""
    new = [Tally(1, 1)] * 28 + [Tally(1, 0)] * 12
    old = [Tally(1, 1 - tally.passed) for tally in new]
    exact = 2 * sum(comb(40, i) for i in range(28, 41)) / 2**40
    assert permutation_p_value(new, old) == pytest.approx(exact, rel=0.2)
    assert permutation_p_value([Tally(1, 1)] * 60, [Tally(1, 0)] * 60) == pytest.approx(1 / 20_001), "never zero"
    assert permutation_p_value(old, old) == 1.0


@settings(max_examples=50, deadline=None)
@given(pairs(12))
def test_a_difference_turns_with_its_sides(case: tuple[list[Tally], list[Tally]]) -> None:
    new, old = case
    there, back = estimate_difference(new, old), estimate_difference(old, new)
    assert (there.value, there.low, there.high) == pytest.approx((-back.value, -back.high, -back.low))
    assert -1 <= there.low <= there.value <= there.high <= 1


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_with_many_samples_it_is_the_paired_t_interval(confidence: float) -> None:
    generator = np.random.default_rng(1)
    old, new = (generator.binomial(1000, generator.beta(2, 2, size=60)) for _ in range(2))
    estimate = estimate_difference([Tally(1000, int(c)) for c in new], [Tally(1000, int(c)) for c in old], confidence)
    interval = stats.ttest_rel(new / 1000, old / 1000).confidence_interval(confidence)
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high), abs=2e-4)


def test_families_of_one_size_are_as_many_observations() -> None:
    """With families it is the t interval of the families' means, where scipy computes the same."""
    generator = np.random.default_rng(2)
    passed = generator.binomial(1000, np.repeat(generator.beta(2, 2, size=12), 5))
    new = [Tally(1000, int(count), f"family {index // 5}") for index, count in enumerate(passed)]
    old = [Tally(1000, 500, tally.family) for tally in new]
    estimate = estimate_difference(new, old)
    means = np.reshape(passed / 1000 - 0.5, (12, 5)).mean(1)
    interval = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high), abs=1e-3)
    alone = estimate_difference([Tally(1000, tally.passed) for tally in new], [Tally(1000, 500)] * 60)
    assert alone.high - alone.low < 0.7 * (estimate.high - estimate.low)


def test_one_family_alone_says_nothing() -> None:
    tallies = [Tally(4, 3, "one")] * 50
    assert estimate_pass_at_k(tallies, 1) == Estimate(0.75, 0.0, 1.0)
    assert estimate_difference(tallies, tallies) == Estimate(0.0, -1.0, 1.0)
    assert detectable_difference(tallies, tallies) == 1.0


def test_the_labels_of_a_family_are_exchanged_together() -> None:
    new, old = ([Tally(1, passed, f"family {index % 3}") for index in range(30)] for passed in (1, 0))
    assert permutation_p_value(new, old) == 2 / 2**3
    assert permutation_p_value([Tally(1, 1)] * 30, [Tally(1, 0)] * 30) < 1e-4


def test_holm_is_bonferroni_for_the_smallest_and_never_falls() -> None:
    # 0.01 * 4, 0.03 * 3 (and not below it), 0.04 * 2 -> 0.09, 0.5: Holm 1979, section 2
    assert holm([0.03, 0.01, 0.5, 0.04]) == pytest.approx([0.09, 0.04, 0.5, 0.09])
    assert holm([0.2]) == [0.2]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("samples", [1, 8])
def test_a_detectable_difference_is_seen_four_times_in_five(samples: int) -> None:
    """Planned from a baseline: 400 comparisons with a model better by just that. 0.8 is measured to +-0.04."""
    generator = np.random.default_rng(5)

    def draw(rates: np.ndarray) -> list[Tally]:
        return [Tally(samples, int(passed)) for passed in generator.binomial(samples, rates)]

    rates = generator.beta(4, 4, size=150)
    planned = plan_difference(draw(generator.beta(4, 4, size=2000)), 150, samples)
    seen, afterwards = 0, []
    for _ in range(400):
        new, old = draw(np.minimum(1, rates + planned)), draw(rates)
        seen += estimate_difference(new, old).low > 0
        afterwards.append(detectable_difference(new, old))
    assert seen / 400 > 0.74
    assert np.mean(afterwards) == pytest.approx(planned, rel=0.1)


def test_more_confidence_is_a_wider_interval() -> None:
    tallies = [Tally(4, index % 5) for index in range(40)]
    widths = [
        [estimate.high - estimate.low for estimate in (estimate_pass_at_k(tallies, 1, level), other)]
        for level in (0.5, 0.95, 0.9999)
        for other in [estimate_difference(tallies, tallies[::-1], level)]
    ]
    assert widths == sorted(widths)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 12), st.integers(1, 4), st.integers(1, 5), st.randoms(use_true_random=False))
def test_validations_of_runs_have_the_same_interval(families: int, alike: int, samples: int, random: Any) -> None:
    """`ratchet_kit.statistics` has it without numpy, which the trainer's clients do not need."""
    results = [
        Tally(samples, random.randint(0, samples), f"family {family}")
        for family in range(families)
        for _ in range(alike)
    ]
    wanted = estimate_pass_at_k(results, 1)
    rates = [one.passed / one.samples for one in results]
    found = mean_over_problems(rates, [one.family for one in results], samples * len(results))
    assert (found.value, found.low, found.high) == pytest.approx((wanted.value, wanted.low, wanted.high), abs=0.01)
