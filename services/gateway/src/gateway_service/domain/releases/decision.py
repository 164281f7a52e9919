"""When a release is rolled back, held or advanced: the traffic of its stage against its bounds.

A bound counts as broken only when an interval shows it, never a point estimate, and since the controller looks again
and again while samples come in, the interval holds at all sample sizes at once (a confidence sequence). With fixed
95 % intervals, looking after each request would roll back good candidates far more often than in 5 % of releases.
"""

import math
from dataclasses import dataclass
from datetime import datetime

from gateway_service.domain.releases.release import Bounds, Release
from gateway_service.domain.traffic.sample import LATENCY_QUANTILE, Traffic
from ratchet_kit.statistics import Estimate, newcombe, wilson

ALPHA = 0.05
"""Chance, per bound and over all looks, that a candidate within its bounds is rolled back."""
MIN_SAMPLES = 20
"""An arm with fewer samples proves nothing."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Not enough is known yet, or a bound looks broken and it is not proven."""

    reason: str


@dataclass(frozen=True, slots=True)
class Advance:
    reason: str


@dataclass(frozen=True, slots=True)
class RollBack:
    reason: str


Decision = Hold | Advance | RollBack


def sequential_z(n: int, alpha: float = ALPHA) -> float:
    """Standard errors to either side of a mean of `n` values, valid for all n at once.

    Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of
    Statistics 49 (2021), eq. (2), with the variance estimated: Waudby-Smith et al., Time-uniform central limit theory
    and asymptotic confidence sequences, Annals of Statistics 52 (2024). About 3.7 at n = 30, 3.9 at n = 1000.
    """
    n = max(n, 2)
    return 1.7 * math.sqrt(math.log(math.log(2 * n)) + 0.72 * math.log(5.2 / alpha))


def difference(mean_a: float, n_a: int, mean_b: float, n_b: int) -> Estimate:
    """A's mean minus b's, both of values in [0, 1], with an interval that is valid at all sample sizes at once."""
    return newcombe(mean_a, n_a, mean_b, n_b, sequential_z(min(n_a, n_b)))


@dataclass(frozen=True, slots=True)
class Finding:
    """One bound against the traffic."""

    text: str
    suspected: bool
    """The point estimate breaks the bound."""
    shown: bool
    """So does the whole interval."""


def decide(release: Release, traffic: Traffic, now: datetime) -> Decision:
    """What to do with a PROGRESSING release, by the traffic of its present stage."""
    stage, bounds = release.spec.stages[release.stage], release.spec.bounds
    findings = [_error_rate(bounds, traffic), _latency(bounds, traffic), _quality(bounds, traffic)]
    shown = [finding.text for finding in findings if finding.shown]
    if shown:
        return RollBack("; ".join(shown))
    assert release.stage_start_time is not None, "a release in progress has a stage"
    wait = math.ceil((stage.min_duration - (now - release.stage_start_time)).total_seconds())
    if wait > 0:
        return Hold(f"{wait} s of the stage's time are left")
    answered = traffic.candidate.requests
    if answered < stage.min_samples:
        return Hold(f"{answered} of {stage.min_samples} samples")
    suspected = [finding.text for finding in findings if finding.suspected]
    if suspected:
        return Hold(f"more samples are needed to tell: {'; '.join(suspected)}")
    return Advance(f"within bounds after {answered} requests at {stage.percent} %")


def _error_rate(bounds: Bounds, traffic: Traffic) -> Finding:
    """Candidate's error rate minus the baseline's against the bound."""
    candidate = traffic.candidate
    baseline = traffic.baseline if traffic.baseline.requests >= MIN_SAMPLES else traffic.reference
    bound = bounds.max_error_rate_increase
    interval = difference(candidate.error_rate, candidate.requests, baseline.error_rate, baseline.requests)
    text = (
        f"error rate {candidate.error_rate:.1%} ({candidate.errors} of {candidate.requests}) against "
        f"{baseline.error_rate:.1%}, at most {bound:.1%} more is allowed"
    )
    enough = min(candidate.requests, baseline.requests) >= MIN_SAMPLES
    return Finding(text, candidate.error_rate - baseline.error_rate > bound, enough and interval.low > bound)


def _latency(bounds: Bounds, traffic: Traffic) -> Finding:
    """Candidate's p95 latency against `max_latency_ratio` times the baseline's.

    The p95 exceeds a limit when more than 5 % of requests do; so the interval is that of their share (the quantile
    test of Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2). The limit takes the baseline's p95 as
    it was measured.
    """
    candidate = traffic.candidate
    baseline = traffic.baseline if len(traffic.baseline.latencies) >= MIN_SAMPLES else traffic.reference
    limit = bounds.max_latency_ratio * baseline.latency_p95
    n = len(candidate.latencies)
    text = (
        f"p95 latency {candidate.latency_p95:.2f} s against {baseline.latency_p95:.2f} s, "
        f"at most {bounds.max_latency_ratio:g} times as much is allowed"
    )
    if min(n, len(baseline.latencies)) < MIN_SAMPLES:
        return Finding(text, suspected=False, shown=False)
    slow = sum(latency > limit for latency in candidate.latencies)
    share = wilson(slow / n, n, sequential_z(n))
    return Finding(text, candidate.latency_p95 > limit, share.low > 1 - LATENCY_QUANTILE)


def _quality(bounds: Bounds, traffic: Traffic) -> Finding:
    """Baseline's mean score minus the candidate's against the bound; no finding below MIN_SAMPLES scores."""
    candidate = traffic.candidate
    baseline = traffic.baseline if traffic.baseline.scored >= MIN_SAMPLES else traffic.reference
    bound = bounds.max_quality_drop
    text = (
        f"quality {candidate.mean_score:.3f} over {candidate.scored} answers against "
        f"{baseline.mean_score:.3f} over {baseline.scored}, a drop of at most {bound:g} is allowed"
    )
    if min(candidate.scored, baseline.scored) < MIN_SAMPLES:
        return Finding(text, suspected=False, shown=False)
    interval = difference(baseline.mean_score, baseline.scored, candidate.mean_score, candidate.scored)
    return Finding(text, baseline.mean_score - candidate.mean_score > bound, interval.low > bound)
