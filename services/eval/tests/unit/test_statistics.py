"""The estimators against their definitions, by brute force."""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_service.domain.statistics import (
    Tally,
    estimate_difference,
    estimate_pass_at_k,
    pass_at_k,
    permutation_p_value,
)
from ratchet_kit.statistics import Estimate

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
