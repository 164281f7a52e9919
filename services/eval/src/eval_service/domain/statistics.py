"""pass@k, its intervals and the paired comparison. All of it is over problems: the samples of one problem are not
independent evidence about a model, so they are first averaged, and problems are what is counted (Miller 2024, "Adding
Error Bars to Evals", arXiv:2411.00640, sections 2.2 and 4.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ratchet_kit.statistics import Estimate, wilson

CONFIDENCE = 0.95
PERMUTATIONS = 20_000
_EXACT_UP_TO = 14
"""Problems whose every sign pattern is tried: 2^14 is below PERMUTATIONS."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Of one problem: how many samples there are, and how many passed."""

    samples: int
    passed: int
    family: str = ""
    """Problems of one family count as one; empty: it stands alone."""
    tampered: int = 0
    """Samples that were found to cheat."""


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """The unbiased estimate of the probability that one of `k` samples passes, from `samples` of which `passed` did.

    1 - C(n-c, k) / C(n, k), as the product that does not overflow: Chen et al. 2021, "Evaluating Large Language Models
    Trained on Code", arXiv:2107.03374, equation 1 and figure 3. Asks for 1 <= k <= samples.
    """
    if samples - passed < k:
        return 1.0
    return 1.0 - float(np.prod(1.0 - k / np.arange(samples - passed + 1, samples + 1)))


def estimate_pass_at_k(tallies: Sequence[Tally], k: int) -> Estimate:
    """pass@k over problems, with its interval. Asks for at least one problem.

    The interval is Wilson's (1927), with an effective number of samples in place of the number of trials:
    n_eff = p (1 - p) / (s^2 / m), where s^2 is the variance of the m problems' estimates, so that it is as wide as the
    spread between problems asks (Korn and Graubard 1998; Dean and Pagano 2015, "Evaluating Confidence Interval Methods
    for Binomial Proportions in Clustered Surveys", who found it to cover well). The quantile is Student's with m - 1
    degrees of freedom, which widens it where problems are few. Unlike a t or bootstrap interval over problems it stays
    within [0, 1], and does not shrink to a point when every problem passed, or none did.
    """
    values = np.array([pass_at_k(tally.samples, tally.passed, k) for tally in tallies])
    problems, mean = len(values), float(values.mean())
    if problems == 1:
        return Estimate(mean, 0.0, 1.0)
    variance = float(values.var(ddof=1))
    # No more evidence than samples in groups of k. When nothing varies, as at 0 and 1, problems count once each.
    most = sum(tally.samples for tally in tallies) / k
    effective = min(problems * mean * (1 - mean) / variance, most) if variance > 0 else float(problems)
    return wilson(mean, effective, _t_quantile(problems - 1))


def estimate_difference(candidate: Sequence[Tally], baseline: Sequence[Tally]) -> Estimate:
    """Candidate minus baseline in pass@1, paired: both sequences are about the same problems in the same order.

    A t interval over the problems' differences, to which one problem that got wholly better and one that got wholly
    worse are added: Bonett and Price 2012, "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions
    Based on Paired Data", which is for one sample a problem and is here applied to means. So a few problems that all
    agree do not give an interval without width. The value is the plain mean difference.
    """
    differences = _differences(candidate, baseline)
    adjusted = np.concatenate([differences, [1.0, -1.0]])
    mean, error = float(adjusted.mean()), float(adjusted.std(ddof=1)) / len(adjusted) ** 0.5
    half = _t_quantile(len(adjusted) - 1) * error
    return Estimate(float(differences.mean()), max(-1.0, mean - half), min(1.0, mean + half))


def permutation_p_value(candidate: Sequence[Tally], baseline: Sequence[Tally], seed: int = 0) -> float:
    """Two-sided p-value of the paired permutation test: were the labels of each problem's two results exchangeable?

    Flips the signs of the problems' differences: all patterns where they are few, else PERMUTATIONS random ones, with
    the one observed counted as one more (Phipson and Smyth 2010, "Permutation P-values Should Never Be Zero").
    """
    differences = _differences(candidate, baseline)
    differences = differences[differences != 0]  # a sign changes nothing in these
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


def _differences(candidate: Sequence[Tally], baseline: Sequence[Tally]) -> NDArray[np.float64]:
    return np.array([_rate(new) - _rate(old) for new, old in zip(candidate, baseline, strict=True)])


def _rate(tally: Tally) -> float:
    return tally.passed / tally.samples


def _t_quantile(degrees: int) -> float:
    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))
