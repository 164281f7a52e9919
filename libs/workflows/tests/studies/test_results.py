"""Bands, means and differences, against scipy."""

from dataclasses import replace

import pytest
from scipy import stats

from ratchet_kit.statistics import Estimate, mean_of_runs
from ratchet_workflows.studies.curves import band, smoothed
from ratchet_workflows.studies.results import Point, Result, paired, reaches, summaries


def result(variant: str, seed: int, value: float | None, tokens: int = 100) -> Result:
    estimate = None if value is None else Estimate(value, value - 0.1, value + 0.1)
    return Result(variant, seed, "run", "eval", "", False, estimate, None, 4, tokens, "tokens", 60.0, 2**30, ())


@pytest.mark.parametrize("values", [[0.2, 0.4], [0.5, 0.52, 0.61], [0.1, 0.2, 0.3, 0.35, 0.9]])
def test_the_band_over_seeds_is_students(values: list[float]) -> None:
    low, high = stats.t.interval(0.95, len(values) - 1, loc=sum(values) / len(values), scale=stats.sem(values))
    found = mean_of_runs(values)
    assert found.low == pytest.approx(low, abs=0.01 * (high - low))
    assert found.high == pytest.approx(high, abs=0.01 * (high - low))


def test_a_difference_is_paired_by_seed() -> None:
    before = [result("a", seed, value) for seed, value in enumerate([0.1, 0.5, 0.9])]
    after = [result("b", seed, value) for seed, value in enumerate([0.2, 0.62, 0.98])]
    found = paired(before, after)
    assert found
    expected = stats.ttest_rel([0.2, 0.62, 0.98], [0.1, 0.5, 0.9]).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(expected.low, rel=0.02), pytest.approx(expected.high, rel=0.02))
    apart = paired(before, [result("b", seed + 2, 0.5) for seed in range(3)])
    assert apart is None  # one seed in common


def test_seeds_that_agree_have_no_band() -> None:
    first, second = summaries([result(name, seed, 0.5) for name in "ab" for seed in (0, 1)])
    assert (first.pass_at_1, first.band, second.difference) == (0.5, None, None)


def test_a_summary_is_of_the_runs_that_have_a_score() -> None:
    first, second = summaries(
        [result("a", 0, 0.2, 90), result("a", 1, 0.4, 110), result("b", 0, 0.5), result("b", 1, None)]
    )
    assert (first.pass_at_1, first.tokens, first.difference) == (pytest.approx(0.3), 100, None)
    assert (second.runs, second.wanted, second.band, second.difference) == (1, 2, None, None)
    assert second.pass_at_1 == 0.5


def test_curves_of_seeds_are_a_band_where_all_of_them_are() -> None:
    found = band([[(0, 0.0), (10, 1.0)], [(2, 0.0), (4, 0.2), (8, 0.2)]])
    assert found
    assert (found.x[0], found.x[-1]) == (2, 8)
    assert found.mean[0] == pytest.approx((0.2 + 0.0) / 2)
    assert found.mean[-1] == pytest.approx((0.8 + 0.2) / 2)
    low, high = stats.t.interval(0.95, 1, loc=0.5, scale=stats.sem([0.8, 0.2]))
    assert (found.low[-1], found.high[-1]) == (pytest.approx(low, rel=0.01), pytest.approx(high, rel=0.01))


def test_one_curve_has_no_band_and_curves_apart_have_none_at_all() -> None:
    alone = band([[(0, 0.1), (5, 0.2)]])
    assert alone
    assert (alone.mean, alone.low) == ([0.1, 0.2], ())
    assert band([[(0, 0.1), (5, 0.2)], [(6, 0.1), (7, 0.2)]]) is None
    assert band([[], []]) is None
    assert smoothed([(place, float(place)) for place in range(7)])[-1] == (6, 4.0)


def on_the_way(variant: str, seed: int, *scores: float | None) -> Result:
    """Validated every 100 tokens, its base first."""
    points = [Point(step, 100 * step, 0.5, score) for step, score in enumerate(scores)]
    return replace(result(variant, seed, 0.5), points=points)


def test_tokens_are_counted_to_the_score_with_which_the_first_variant_ends() -> None:
    found = reaches(
        [
            on_the_way("plain", 0, 0.1, 0.2, 0.5, 0.4),
            on_the_way("plain", 1, 0.1, 0.2, 0.3, 0.6),
            on_the_way("new", 0, 0.1, 0.5, 0.4, 0.4),
            on_the_way("new", 1, 0.1, 0.2, None, 0.5),
            on_the_way("never", 0, 0.1, 0.2, 0.5, 0.4),
            on_the_way("never", 1, 0.1, 0.2, 0.3, 0.4),
        ]
    )
    assert found
    plain, new, never = found.variants
    assert (found.score, plain.tokens, plain.mean, plain.difference) == (0.5, {0: 200, 1: 300}, 250, None)
    assert (new.tokens, new.mean, new.difference and new.difference.value) == ({0: 100, 1: 300}, 200, -50)
    assert (never.tokens, never.reached, never.band, never.difference) == ({0: 200, 1: None}, 1, None, None)


def test_one_variant_and_runs_without_validation_reach_nothing() -> None:
    assert reaches([on_the_way("plain", 0, 0.1, 0.2)]) is None
    assert reaches([on_the_way("plain", 0, None, None), on_the_way("new", 0, 0.1, 0.2)]) is None
