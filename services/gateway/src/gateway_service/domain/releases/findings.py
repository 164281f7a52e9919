"""The bounds of a release against its traffic.

Each bound is looked at through one interval of how far the candidate is beyond it, over units (sticky users), that
holds at all looks at once (a confidence sequence), since the controller looks again and again. Wholly beyond: it is
broken. Wholly within: it is shown to hold. Neither: more traffic is needed.

Only traffic of the same time is compared: the arms of a stage with each other, since their shares are the same all
through it. What changes from one stage to the next changes in both.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gateway_service.domain.releases.evidence import Traffic
from gateway_service.domain.releases.release import Release
from gateway_service.domain.statistics import sequences
from gateway_service.domain.statistics.moments import Mean, Moments, mean
from gateway_service.domain.statistics.strata import Cell, Strata, difference
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import LATENCY_QUANTILE
from ratchet_kit.statistics import Estimate

ALPHA = 0.05
"""Chance, over all bounds, stages and looks, that a candidate within its bounds is rolled back."""
LENIENCE = 0.15
"""1 minus the confidence with which a bound is shown to hold: one at its bound goes on in one of ten at most."""
TUNED_FOR = 300
"""Units of the candidate at which the intervals are narrowest."""
MIXTURE = sequences.mixture(TUNED_FOR, ALPHA)
ARMS = (Arm.CANDIDATE, Arm.BASELINE)
STEP, STEPS = 1.05, 284
"""In which more traffic is foreseen: up to a million times the present one."""


class Bound(StrEnum):
    ERROR_RATE = "error_rate"
    LEFT = "left"
    LATENCY = "latency"
    QUALITY = "quality"

    @property
    def noun(self) -> str:
        return {Bound.ERROR_RATE: "error rates", Bound.LEFT: "how many callers leave"}.get(self, self.value)


@dataclass(frozen=True, slots=True)
class Finding:
    """One bound against the traffic."""

    bound: Bound
    text: str
    """The quantity compared, both numbers, and the allowed difference."""
    claim: str
    """The finding that would break the bound, such as "an error rate more than 2 points higher"."""
    rests_on: str
    """The candidate's traffic that it is of, such as "60 requests"."""
    beyond: Mean | None
    """How far the candidate is beyond the bound; None while an arm has fewer than MIN_UNITS units."""
    cautious: Mean | None
    """The same, with more room for what was not seen yet: what a bound is shown to hold by."""
    level: float
    """1 minus the confidence with which it is shown to be broken."""

    @property
    def suspected(self) -> bool:
        """The point estimate breaks the bound."""
        return self.beyond is not None and self.beyond.value > 0

    @property
    def interval(self) -> Estimate | None:
        """Interval of the candidate's distance beyond the bound, valid at all looks at once; None as `beyond`."""
        return None if self.beyond is None else sequences.interval(self.beyond, self.level, MIXTURE)

    @property
    def broken(self) -> bool:
        return self.interval is not None and self.interval.low > 0

    @property
    def holds(self) -> bool:
        return self.cautious is not None and sequences.interval(self.cautious, LENIENCE, MIXTURE).high <= 0

    @property
    def decided_at(self) -> float | None:
        """How many times the present traffic decides it, if what comes is like what came; None: not foreseen."""
        now, level = (self.beyond, self.level) if self.suspected else (self.cautious, LENIENCE)
        if now is None or now.value == 0:
            return None

        def decides(step: int) -> bool:
            times = STEP**step
            more = Mean(now.value, now.variance / times, now.units * times)
            found = sequences.interval(more, level, MIXTURE)
            return bool(found.low > 0 or found.high <= 0)

        # The interval narrows with each step.
        step = bisect_left(range(STEPS), True, key=decides)
        return STEP**step if step < STEPS else None


def look(release: Release, traffic: Traffic) -> Sequence[Finding]:
    """Each bound against the traffic."""
    found = [
        _error_rate(release, traffic),
        _left(release, traffic),
        _latency(release, traffic),
        _quality(release, traffic),
    ]
    if traffic.candidate.requests:
        return found
    return [replace(one, text=f"{one.bound.noun}: nobody has asked {release.candidate} yet") for one in found]


def _error_rate(release: Release, traffic: Traffic) -> Finding:
    """The candidate's error rate minus the baseline's, in the present stage."""
    candidate, baseline, bound = traffic.candidate, traffic.baseline, release.spec.bounds.max_error_rate_increase
    return Finding(
        Bound.ERROR_RATE,
        f"error rate {_share(candidate.failures)} against the baseline's {_share(baseline.failures)}, {_more(bound)}",
        f"an error rate more than {_points(bound)} higher",
        _number(candidate.answered, "request"),
        *_beyond(candidate.failures, baseline.failures, bound),
        _level(release, len(release.spec.stages) + 1),
    )


def _left(release: Release, traffic: Traffic) -> Finding:
    """The share of callers who left before their answer was complete, minus the baseline's, in the present stage."""
    candidate, baseline, bound = traffic.candidate, traffic.baseline, release.spec.bounds.max_left_increase
    return Finding(
        Bound.LEFT,
        f"callers who left before their answer was complete: {_share(candidate.leaving)} against the baseline's "
        f"{_share(baseline.leaving)}, {_more(bound)}",
        f"more than {_points(bound)} more callers who leave before their answer is complete",
        _number(candidate.requests, "request"),
        *_beyond(candidate.leaving, baseline.leaving, bound),
        _level(release, len(release.spec.stages) + 1),
    )


def _latency(release: Release, traffic: Traffic) -> Finding:
    """The candidate's p95 latency against `max_latency_ratio` times the baseline's, in the present stage.

    A p95 exceeds a limit when more than 5 % of answers take longer (the quantile test of Conover, Practical
    Nonparametric Statistics, 3rd ed., section 3.2). The limits of an answer are known before it: the p95 that the
    baseline had a minute before, while it answered at least half of the requests, and the ratio times that. The
    candidate is too slow when more of its answers exceed its limit than 5 %, which a baseline that answers little and
    is less busy for that may not reach, and than of the baseline's exceed theirs at the same time, so that an hour in
    which all are slow is no difference. Both have to be shown.
    """
    ratio, level = release.spec.bounds.max_latency_ratio, _level(release, len(release.spec.stages) + 1)
    slow, slow_before = traffic.candidate.slowness, traffic.baseline.slowness
    beyond, cautious = _beyond(slow, slow_before, 0.0)
    if beyond and cautious:
        beyond = min(beyond, _over_5_percent(slow, False), key=lambda one: _low(one, level))
        cautious = min(cautious, _over_5_percent(slow, True), key=lambda one: _low(one, level))
    limits = [release.slow_after(arm) for arm in ARMS]
    text = "latency not compared: the p95 of the baseline is not known yet"
    if limits[0] and limits[1]:
        text = (
            f"answers that took longer than {limits[0].total_seconds():.2f} s, {ratio:g} times the baseline's p95: "
            f"{_share(slow)}; 5 % may, or as many as of the baseline's took longer than "
            f"{limits[1].total_seconds():.2f} s: {_share(slow_before)}"
        )
    claim = f"a p95 latency more than {ratio:g} times the baseline's"
    return Finding(Bound.LATENCY, text, claim, _number(int(slow.x), "timed answer"), beyond, cautious, level)


def _quality(release: Release, traffic: Traffic) -> Finding:
    """The baseline's mean score minus the candidate's: over all stages so far, each compared within itself, since
    scores are few; and once more from the promotion on, since what came before would hide a drop. The worse counts."""
    bound, stages, level = release.spec.bounds.max_quality_drop, len(release.spec.stages), _level(release, 2)
    if release.percent == 100:
        later = _arms(traffic.candidate.scores, traffic.baseline.scores)
    else:
        later = traffic.scores.between(stages, stages + 1)
    parts = [part for part in (traffic.scores.between(0, stages), later) if difference(part, *ARMS) is not None]
    worst = max(parts, key=lambda part: _low(_gap(part, bound, -1), level), default=None)
    of_candidate, of_baseline = ((worst or traffic.scores).number(arm) for arm in ARMS)
    beyond, cautious = (_gap(worst, bound, -1, cautious=way) if worst else None for way in (False, True))
    drop = beyond.value + bound if beyond else 0.0
    lower = f"{abs(drop):.3f} {'lower' if drop >= 0 else 'higher'} than the baseline's" if beyond else "not compared"
    return Finding(
        Bound.QUALITY,
        f"quality {lower}, over {of_candidate:,} and {of_baseline:,} scored answers, "
        f"a drop of up to {bound:g} is allowed",
        f"a quality more than {bound:g} lower",
        _number(of_candidate, "scored answer"),
        beyond,
        cautious,
        level,
    )


def _gap(strata: Strata, bound: float, sign: int = 1, *, cautious: bool = False) -> Mean:
    gap = difference(strata, *ARMS, cautious=cautious)
    assert gap is not None, "it was asked"
    return Mean(sign * gap.value - bound, gap.variance, gap.units)


def _beyond(candidate: Moments, baseline: Moments, bound: float) -> tuple[Mean | None, Mean | None]:
    """How much more the candidate has than the bound allows, of values in [0, 1]; and cautiously."""
    arms = _arms(candidate, baseline)
    if difference(arms, *ARMS) is None:
        return None, None
    return _gap(arms, bound), _gap(arms, bound, cautious=True)


def _low(beyond: Mean, level: float) -> float:
    return sequences.interval(beyond, level, MIXTURE).low


def _over_5_percent(slow: Moments, cautious: bool) -> Mean:
    share = mean(slow, bounded=True, cautious=cautious)
    return Mean(share.value - (1 - LATENCY_QUANTILE), share.variance, share.units)


def _arms(candidate: Moments, baseline: Moments) -> Strata:
    return Strata({Cell(0, Arm.CANDIDATE): candidate, Cell(0, Arm.BASELINE): baseline})


def _level(release: Release, parts: int) -> float:
    """The level of one bound that is looked at anew in each of `parts` parts of a release."""
    return ALPHA / len(Bound) / parts


def _share(moments: Moments) -> str:
    return f"{100 * moments.y / max(moments.x, 1):.1f} % ({int(moments.y):,} of {int(moments.x):,})"


def _points(share: float) -> str:
    return f"{100 * share:g} point{'' if share == 0.01 else 's'}"


def _more(bound: float) -> str:
    return f"up to {_points(bound)} more is allowed" if bound else "no more is allowed"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
