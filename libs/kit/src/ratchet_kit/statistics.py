"""A statistic with its interval, as evaluations, gates, releases and reports share it, and to protobuf and back."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

from ratchet.common.v1 import statistics_pb2 as pb

LARGEST_CONCESSION = 0.1
"""A gate may let a candidate pass that is no better, but not one that may be worse by more than this."""
LEAST_PROBLEMS = 10
"""Fewer problems (families of them count as one) decide no gate: an interval over them isn't to be trusted."""


def too_few(problems: int) -> str:
    """Reason why this number of independent problems decides no gate; empty if it does."""
    if problems >= LEAST_PROBLEMS:
        return ""
    return f"has {problems} independent problems: a gate needs {LEAST_PROBLEMS} or more"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic and the ends of its confidence interval; who makes one says at which level."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidate minus baseline in pass@1, paired by problem."""

    baseline: Estimate
    candidate: Estimate
    difference: Estimate
    p_value: float
    """Two-sided, of the paired permutation test over problems."""
    problems: int
    won: int = 0
    """Problems that the candidate solves more often than the baseline, and (`lost`) less often."""
    lost: int = 0
    clusters: int = 0
    """Families of problems, which count as one each; 0: not known."""
    detectable_difference: float = 0.0
    """The smallest true difference that such a comparison shows four times in five; 0: not known."""
    confidence: float = 0.95
    """Of the intervals."""


def wilson(mean: float, n: float, z: float) -> Estimate:
    """Interval of a mean of `n` values in [0, 1], `z` standard errors wide to either side; all of [0, 1] when n is 0.

    Wilson's score interval (JASA 22, 1927), which needs no variance and behaves at 0 and 1. It is made for 0/1 values
    and errs to the wide side for others, because a variable in [0, 1] of mean m has at most the variance m (1 - m).
    """
    if n == 0:
        return Estimate(mean, 0.0, 1.0)
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    # rounding aside, the mean is within
    return Estimate(mean, max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))


def mean_over_problems(values: Sequence[float], families: Sequence[str], samples: int) -> Estimate:
    """The mean of problems' values, all in [0, 1], with its 95 % interval. Asks for at least one problem.

    As evaluations make it (eval_service/domain/statistics.py names the sources), with the standard library alone:
    Wilson's interval with as many trials as the spread between problems is worth, `samples` at most. Problems of one
    family (structure) vary together; an empty one is a problem that stands alone.
    """
    problems, mean = len(values), fmean(values)
    sums, sizes = defaultdict[object, float](float), Counter[object]()
    for place, (value, family) in enumerate(zip(values, families, strict=True)):
        sums[family or place] += value - mean
        sizes[family or place] += 1
    if len(sizes) == 1:
        return Estimate(mean, 0.0, 1.0)
    squares = sum(sums[family] ** 2 / (1 - size / problems) for family, size in sizes.items())
    variance = squares / problems**2  # of the mean: CR2, Bell and McCaffrey 2002
    trials = min(mean * (1 - mean) / variance, samples) if variance > 1e-12 else len(sizes)
    return wilson(mean, trials, _t_quantile(len(sizes) - 1))


_T_OF_ONE = 12.706
"""Student's 97.5 % quantile for one degree of freedom, where the series below is 11 % too small."""


def _t_quantile(degrees: int) -> float:
    """Student's, for 95 %: Abramowitz and Stegun 1964, 26.7.5; within 1 % from 2 degrees on."""
    if degrees == 1:
        return _T_OF_ONE
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term * (1 / degrees) ** power for power, term in enumerate(terms))


def mean_of_runs(values: Sequence[float]) -> Estimate:
    """The mean of two or more values that are independent, runs of other seeds say, with Student's 95 % interval."""
    half = _t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    mean = fmean(values)
    return Estimate(mean, mean - half, mean + half)


def newcombe(mean_a: float, n_a: float, mean_b: float, n_b: float, z: float) -> Estimate:
    """A's mean minus b's, both of values in [0, 1], from their Wilson intervals of `z` standard errors.

    Newcombe: Interval estimation for the difference between independent proportions, Statistics in Medicine 17 (1998),
    method 10, which behaves at means of 0 and 1.
    """
    a, b, gap = wilson(mean_a, n_a, z), wilson(mean_b, n_b, z), mean_a - mean_b
    low = gap - math.hypot(mean_a - a.low, b.high - mean_b)
    return Estimate(gap, low, gap + math.hypot(a.high - mean_a, mean_b - b.low))


def estimate_to_proto(estimate: Estimate) -> pb.Estimate:
    return pb.Estimate(value=estimate.value, low=estimate.low, high=estimate.high)


def estimate_from_proto(message: pb.Estimate) -> Estimate:
    return Estimate(message.value, message.low, message.high)


_NUMBERS = ("p_value", "problems", "won", "lost", "clusters", "detectable_difference", "confidence")


def comparison_to_proto(comparison: Comparison) -> pb.Comparison:
    return pb.Comparison(
        baseline=estimate_to_proto(comparison.baseline),
        candidate=estimate_to_proto(comparison.candidate),
        difference=estimate_to_proto(comparison.difference),
        **{name: getattr(comparison, name) for name in _NUMBERS},
    )


def comparison_from_proto(message: pb.Comparison) -> Comparison:
    return Comparison(
        baseline=estimate_from_proto(message.baseline),
        candidate=estimate_from_proto(message.candidate),
        difference=estimate_from_proto(message.difference),
        **{name: getattr(message, name) for name in _NUMBERS},
    )
