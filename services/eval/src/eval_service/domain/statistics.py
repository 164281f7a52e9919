"""pass@k, its intervals and the paired comparison. All of it is over problems: the samples of one problem are not
independent evidence about a model, so they are first averaged, and problems are what is counted (Miller 2024, "Adding
Error Bars to Evals", arXiv:2411.00640, sections 2.2 and 4.2), those of one family together (clusters.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eval_service.domain.clusters import Clusters, Mean, Values, t_quantile
from ratchet_kit.statistics import Estimate, wilson

CONFIDENCE = 0.95
POWER = 0.8
PERMUTATIONS = 20_000
_EXACT_UP_TO = 14
"""Families whose every sign pattern is tried: 2^14 is below PERMUTATIONS."""
_ROUNDING = 1e-12
"""A number that is no larger is 0, but for the order in which floats were added."""
_LARGEST_VARIANCE = 0.25
"""Of a sample that passes or fails: p (1 - p)."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Of one problem: how many samples there are, and how many passed."""

    samples: int
    passed: int
    family: str = ""
    """What it shares with others, which are then no independent evidence: its structure. Empty: it stands alone."""
    tampered: int = 0


@lru_cache(maxsize=65536)  # the problems of a set repeat the few numbers that there are
def pass_at_k(samples: int, passed: int, k: int) -> float:
    """The unbiased estimate of the probability that one of `k` samples passes, from `samples` of which `passed` did.

    1 - C(n-c, k) / C(n, k), as the product that does not overflow: Chen et al. 2021, "Evaluating Large Language Models
    Trained on Code", arXiv:2107.03374, equation 1 and figure 3. Asks for 1 <= k <= samples.
    """
    if samples - passed < k:
        return 1.0
    return 1.0 - float(np.prod(1.0 - k / np.arange(samples - passed + 1, samples + 1)))


def estimate_pass_at_k(tallies: Sequence[Tally], k: int, confidence: float = CONFIDENCE) -> Estimate:
    """pass@k over problems, with its interval. Asks for at least one problem.

    The interval is Wilson's (1927), with an effective number of samples in place of the number of trials:
    n_eff = p (1 - p) / V, where V is the variance of the mean over problems, so that it is as wide as the spread
    between problems asks (Korn and Graubard 1998; Dean and Pagano 2015, "Evaluating Confidence Interval Methods for
    Binomial Proportions in Clustered Surveys", who found it to cover well). The quantile is Student's, which widens it
    where problems or families are few. Unlike a t or bootstrap interval over problems it stays within [0, 1], and does
    not shrink to a point when every problem passed, or none did.
    """
    values = np.array([pass_at_k(tally.samples, tally.passed, k) for tally in tallies])
    clusters = _clusters(tallies)
    if clusters.count == 1:
        return Estimate(float(values.mean()), 0.0, 1.0)
    mean = Mean.of(values, clusters)
    # No more evidence than samples in groups of k. When nothing varies, as at 0 and 1, families count once each.
    most = sum(tally.samples for tally in tallies) / k
    varies = mean.variance > _ROUNDING
    effective = min(mean.value * (1 - mean.value) / mean.variance, most) if varies else float(clusters.count)
    return wilson(mean.value, effective, t_quantile(mean.degrees, confidence))


def estimate_difference(
    candidate: Sequence[Tally], baseline: Sequence[Tally], confidence: float = CONFIDENCE
) -> Estimate:
    """Candidate minus baseline in pass@1, paired: both sequences are about the same problems in the same order.

    A t interval over the problems' differences, to which one problem that got wholly better and one that got wholly
    worse are added, as Bonett and Price do for one sample a problem (2012, "Adjusted Wald Confidence Interval for a
    Difference of Binomial Proportions Based on Paired Data"). So a few problems that all agree do not give an interval
    without width. Here each of the two weighs as much as one sample a problem leaves open, `_doubt`: with many samples
    they vanish, and what is left is the paired t interval. The value is the plain mean difference.
    """
    differences, clusters = _differences(candidate, baseline), _clusters(baseline)
    value = float(differences.mean())
    if clusters.count == 1:
        return Estimate(value, -1.0, 1.0)
    mean = _adjusted(differences, clusters, _doubt(candidate, baseline))
    half = t_quantile(mean.degrees, confidence) * mean.variance**0.5
    return Estimate(value, max(-1.0, min(value, mean.value - half)), min(1.0, max(value, mean.value + half)))


def detectable_difference(
    candidate: Sequence[Tally], baseline: Sequence[Tally], confidence: float = CONFIDENCE, power: float = POWER
) -> float:
    """The smallest true difference whose interval lies above 0 with probability `power`, at the spread seen here."""
    clusters = _clusters(baseline)
    if clusters.count == 1:
        return 1.0
    return _detectable(
        _adjusted(_differences(candidate, baseline), clusters, _doubt(candidate, baseline)), confidence, power
    )


def plan_difference(
    baseline: Sequence[Tally], problems: int, samples: int, confidence: float = CONFIDENCE, power: float = POWER
) -> float:
    """What `detectable_difference` will be for another model on `problems` such problems, `samples` a problem each.

    From how far the baseline's own samples of a problem differ; where there is one a problem, as far as they can at its
    pass@1. It is for a model that moves all problems alike: one that moves some much and others not needs more.
    """
    rates = np.array([tally.passed / tally.samples for tally in baseline])
    if all(tally.samples > 1 for tally in baseline):
        within = float(np.mean([_within(tally) for tally in baseline]))
    else:
        within = float(rates.mean() * (1 - rates.mean()))
    variance = 2 * within / samples
    doubt = variance if samples > 1 and variance > 0 else 2 * _LARGEST_VARIANCE
    whole = problems + 2 * doubt
    mean = Mean(0.0, (problems * variance + 2 * doubt) / (whole - 1) / whole, whole - 1)
    return _detectable(mean, confidence, power)


def permutation_p_value(candidate: Sequence[Tally], baseline: Sequence[Tally], seed: int = 0) -> float:
    """Two-sided p-value of the paired permutation test: were the labels of each problem's two results exchangeable?

    A family's labels are exchanged together. See `sign_flip_p_value`.
    """
    return sign_flip_p_value(family_differences(candidate, baseline), seed)


def family_differences(candidate: Sequence[Tally], baseline: Sequence[Tally]) -> Values:
    """Of each family the sum of its problems' differences."""
    return _clusters(baseline).sums(_differences(candidate, baseline))


def sign_flip_p_value(differences: Values, seed: int = 0) -> float:
    """How often the sum of `differences` is at least as large, either way, when each may as well have the other sign.

    All patterns of signs where they are few, else PERMUTATIONS random ones, with the one observed counted as one more
    (Phipson and Smyth 2010, "Permutation P-values Should Never Be Zero").
    """
    differences = differences[np.abs(differences) > _ROUNDING]  # a sign changes nothing in these
    if len(differences) == 0:
        return 1.0
    observed = abs(differences.sum()) - 1e-9  # sums of the same numbers in another order are not always equal
    if len(differences) <= _EXACT_UP_TO:
        patterns = np.arange(2 ** len(differences))[:, None] >> np.arange(len(differences)) & 1
        return float(np.mean(np.abs((1 - 2 * patterns) @ differences) >= observed))
    generator, extreme, chunk = np.random.default_rng(seed), 0, 1000
    for _ in range(PERMUTATIONS // chunk):
        signs = 1.0 - 2.0 * generator.integers(0, 2, size=(chunk, len(differences)))
        extreme += int(np.count_nonzero(np.abs(signs @ differences) >= observed))
    return (extreme + 1) / (PERMUTATIONS + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values, corrected for being several: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure"."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _adjusted(differences: Values, clusters: Clusters, weight: float) -> Mean:
    """The mean with two problems more, +1 and -1, that weigh `weight` of a problem each."""
    whole = clusters.problems + 2 * weight
    mean = float(differences.sum()) / whole
    squares = clusters.square(differences - mean) + weight * ((1 - mean) ** 2 + (1 + mean) ** 2)
    return Mean(mean, squares / (whole - 1) / whole, clusters.degrees + 2 * weight)


def _doubt(candidate: Sequence[Tally], baseline: Sequence[Tally]) -> float:
    """How much of a problem's difference its samples leave open: the mean variance of it that is due to their number.

    One sample says nothing of its variance, which is then taken to be the largest there is; so also where the samples
    of each problem all agree. With one sample a problem it is half of Bonett and Price's weight, and about what Agresti
    and Min add (2005, "Simple Improved Confidence Intervals for Comparing Matched Proportions").
    """
    pairs = zip(candidate, baseline, strict=True)
    doubt = float(np.mean([_variance(new) + _variance(old) for new, old in pairs]))
    return doubt or 2 * _LARGEST_VARIANCE


def _variance(tally: Tally) -> float:
    """Of the share that passed, due to the number of samples."""
    return _LARGEST_VARIANCE if tally.samples == 1 else _within(tally) / tally.samples


def _within(tally: Tally) -> float:
    """The unbiased estimate of the variance of one sample, p (1 - p), from two or more."""
    return tally.passed * (tally.samples - tally.passed) / tally.samples / (tally.samples - 1)


def _detectable(mean: Mean, confidence: float, power: float) -> float:
    """Bloom 1995, "Minimum Detectable Effects": so many standard errors as both quantiles together."""
    quantiles = t_quantile(mean.degrees, confidence) + t_quantile(mean.degrees, 2 * power - 1)
    return min(1.0, quantiles * float(mean.variance**0.5))


def _differences(candidate: Sequence[Tally], baseline: Sequence[Tally]) -> Values:
    return np.array(
        [new.passed / new.samples - old.passed / old.samples for new, old in zip(candidate, baseline, strict=True)]
    )


def _clusters(tallies: Sequence[Tally]) -> Clusters:
    return Clusters([tally.family for tally in tallies])
