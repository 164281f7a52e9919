"""When a release is rolled back, held or moved on: its traffic against its bounds.

Each bound is looked at through one interval of how far the candidate is beyond it, over units (sticky users), that
holds at all looks at once (a confidence sequence), since the controller looks again and again. Wholly beyond: the
release is rolled back. Wholly within: it is shown to hold. Neither: more traffic is needed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import numpy as np

from gateway_service.domain.releases.evidence import Traffic
from gateway_service.domain.releases.release import Release, State, Unproven
from gateway_service.domain.statistics import sequences
from gateway_service.domain.statistics.moments import MIN_UNITS, Mean, Moments, mean
from gateway_service.domain.traffic.sample import LATENCY_QUANTILE, ArmSample, UnitLatency
from ratchet_kit.statistics import Estimate

ALPHA = 0.05
"""Chance, over all bounds, stages and looks, that a candidate within its bounds is rolled back."""
LENIENCE = 0.2
"""1 minus the confidence with which a bound is shown to hold: a candidate at its bound goes on in one of ten."""
UNPROVEN_UP_TO = 5
"""Percent: a larger share is given only where the bounds are shown to hold."""
TUNED_FOR = 300
"""Units of the candidate at which the intervals are narrowest."""
BOUNDS = 3


@dataclass(frozen=True, slots=True)
class Hold:
    """Not enough is known yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class Advance:
    """To the next stage; after the last to the promotion, and after the watch to the end."""

    reason: str


@dataclass(frozen=True, slots=True)
class RollBack:
    reason: str


@dataclass(frozen=True, slots=True)
class Expire:
    """The stage's time is over, and it is not decided."""

    reason: str


Decision = Hold | Advance | RollBack | Expire


class Bound(StrEnum):
    ERROR_RATE = "error_rate"
    LATENCY = "latency"
    QUALITY = "quality"


@dataclass(frozen=True, slots=True)
class Finding:
    """One bound against the traffic."""

    bound: Bound
    text: str
    beyond: Mean | None
    """How far the candidate is beyond the bound; None while an arm has fewer than MIN_UNITS units."""
    level: float
    """1 minus the confidence with which it is shown to be broken."""

    @property
    def suspected(self) -> bool:
        """The point estimate breaks the bound."""
        return self.beyond is not None and self.beyond.value > 0

    @property
    def interval(self) -> Estimate | None:
        """Of how far the candidate is beyond the bound, at all looks at once; None as `beyond`."""
        return None if self.beyond is None else sequences.interval(self.beyond, self.level, MIXTURE)

    @property
    def broken(self) -> bool:
        return self.interval is not None and self.interval.low > 0

    @property
    def holds(self) -> bool:
        return self.beyond is not None and sequences.interval(self.beyond, LENIENCE, MIXTURE).high <= 0


MIXTURE = sequences.mixture(TUNED_FOR, ALPHA)


def look(release: Release, traffic: Traffic) -> Sequence[Finding]:
    """Each bound against the traffic."""
    return [_error_rate(release, traffic), _latency(release, traffic), _quality(release, traffic)]


def decide(release: Release, traffic: Traffic, now: datetime) -> Decision:
    """What to do with a release that is PROGRESSING or WATCHING."""
    findings = look(release, traffic)
    broken = [finding.text for finding in findings if finding.broken]
    if broken:
        return RollBack("; ".join(broken))
    assert release.stage_start_time is not None, "a release in progress has a stage"
    elapsed = now - release.stage_start_time
    if release.state is State.WATCHING:
        wait = math.ceil((release.spec.watch - elapsed).total_seconds())
        return Hold(f"it is watched for {wait} s more") if wait > 0 else Advance("it was watched, and nothing dropped")
    stage = release.spec.stages[release.stage]
    decision = _at_stage(release, traffic, findings, math.ceil((stage.min_duration - elapsed).total_seconds()))
    if isinstance(decision, Hold) and elapsed > stage.deadline:
        return Expire(f"the stage of {stage.percent} % was not decided in its time: {decision.reason}")
    return decision


def _at_stage(release: Release, traffic: Traffic, findings: Sequence[Finding], wait_s: int) -> Decision:
    stage = release.spec.stages[release.stage]
    if wait_s > 0:
        return Hold(f"{wait_s} s of the stage's time are left")
    answered, scored = traffic.candidate.answered, traffic.candidate_so_far.scored
    if answered < stage.min_samples:
        return Hold(f"{answered} of {stage.min_samples} samples")
    if scored < stage.min_scored:
        return Hold(f"{scored} of {stage.min_scored} scored samples")
    suspected = [finding.text for finding in findings if finding.suspected]
    if suspected:
        return Hold(f"more samples are needed to tell: {'; '.join(suspected)}")
    reason = f"within bounds after {answered} requests at {stage.percent} %"
    unproven = "; ".join(finding.text for finding in findings if not finding.holds)
    following = 100 if release.last_stage else release.spec.stages[release.stage + 1].percent
    if not unproven or following <= UNPROVEN_UP_TO:
        return Advance(reason)
    if release.spec.unproven is Unproven.HOLD:
        return Hold(f"not shown to hold yet: {unproven}")
    return Advance(f"not beyond bounds after {answered} requests at {stage.percent} %; not shown to hold: {unproven}")


def _error_rate(release: Release, traffic: Traffic) -> Finding:
    """The candidate's error rate minus the baseline's, in the present stage."""
    candidate, bound = traffic.candidate, release.spec.bounds.max_error_rate_increase
    baseline = _first_with_units((traffic.baseline, traffic.baseline_so_far, traffic.reference), "failures")
    text = (
        f"error rate {candidate.error_rate:.1%} ({candidate.errors} of {candidate.answered}) against "
        f"{baseline.error_rate:.1%}, at most {bound:.1%} more is allowed"
    )
    beyond = _beyond(candidate.failures, baseline.failures, bound)
    return Finding(Bound.ERROR_RATE, text, beyond, _level(len(release.spec.stages) + 1))


def _latency(release: Release, traffic: Traffic) -> Finding:
    """The candidate's p95 latency against `max_latency_ratio` times the baseline's, in the present stage.

    The p95 exceeds a limit when more than 5 % of requests do; so the interval is that of their share (the quantile
    test of Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2), by unit. The limit takes the baseline's
    p95 as it was measured.
    """
    candidate, ratio = traffic.candidate, release.spec.bounds.max_latency_ratio
    samples = (traffic.baseline, traffic.baseline_so_far, traffic.reference)
    baseline = next((one for one in samples if len({u.unit for u in one.latencies}) >= MIN_UNITS), traffic.reference)
    text = (
        f"p95 latency {candidate.latency_p95:.2f} s against {baseline.latency_p95:.2f} s, "
        f"at most {ratio:g} times as much is allowed"
    )
    slow = _slower(candidate.latencies, ratio * baseline.latency_p95)
    enough = baseline.latencies and slow.units >= MIN_UNITS
    share = mean(slow, bounded=True) if enough else None
    beyond = Mean(share.value - (1 - LATENCY_QUANTILE), share.variance, share.units) if share else None
    return Finding(Bound.LATENCY, text, beyond, _level(len(release.spec.stages) + 1))


def _quality(release: Release, traffic: Traffic) -> Finding:
    """The baseline's mean score minus the candidate's, over all stages so far: scores are few."""
    candidate, bound = traffic.candidate_so_far, release.spec.bounds.max_quality_drop
    baseline = _first_with_units((traffic.baseline_so_far, traffic.reference), "scores")
    text = (
        f"quality {candidate.mean_score:.3f} over {candidate.scored} answers against "
        f"{baseline.mean_score:.3f} over {baseline.scored}, a drop of at most {bound:g} is allowed"
    )
    beyond = _beyond(candidate.scores, baseline.scores, bound, drop=True)
    return Finding(Bound.QUALITY, text, beyond, _level(2))


def _first_with_units(samples: Sequence[ArmSample], sums: str) -> ArmSample:
    """The first whose sums are of enough units, or else the last."""
    return next((one for one in samples if getattr(one, sums).units >= MIN_UNITS), samples[-1])


def _beyond(candidate: Moments, baseline: Moments, bound: float, *, drop: bool = False) -> Mean | None:
    """How much more the candidate has than the bound allows, or less with `drop`; both of values in [0, 1].

    What an interval rests on is counted in units of the candidate, were the baseline known: half the harmonic mean.
    """
    if min(candidate.units, baseline.units) < MIN_UNITS:
        return None
    gap = mean(candidate, bounded=True) - mean(baseline, bounded=True)
    units = candidate.units * baseline.units / (candidate.units + baseline.units)
    return Mean((-gap.value if drop else gap.value) - bound, gap.variance, units)


def _slower(latencies: Sequence[UnitLatency], limit: float) -> Moments:
    _, numbers = np.unique([one.unit for one in latencies], return_inverse=True)
    slow = np.asarray([one.latency > limit for one in latencies], float)
    return Moments.of(np.bincount(numbers), np.bincount(numbers, weights=slow)) if len(latencies) else Moments()


def _level(parts: int) -> float:
    """Of one bound, that is looked at anew in so many parts of a release."""
    return ALPHA / BOUNDS / parts
