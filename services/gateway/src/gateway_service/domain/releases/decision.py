"""When a release is rolled back, held or moved on, and why, in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway_service.domain.releases.evidence import Traffic
from gateway_service.domain.releases.findings import Bound, Finding, look
from gateway_service.domain.releases.release import Release, State, Unproven
from gateway_service.domain.statistics.moments import MIN_UNITS
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import ArmSample

UNPROVEN_UP_TO = 5
"""Percent: a larger share is given only where the bounds are shown to hold."""


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


def decide(release: Release, traffic: Traffic, now: datetime) -> Decision:
    """The next move of a release that is PROGRESSING or WATCHING."""
    findings = look(release, traffic)
    broken = "; ".join(finding.text for finding in findings if finding.broken)
    if broken:
        return RollBack(f"Worse than allowed at {release.percent} %: {broken}. All traffic goes to {release.baseline}.")
    assert release.stage_start_time is not None, "a release in progress has a stage"
    elapsed = now - release.stage_start_time
    if release.state is State.WATCHING:
        return _watched(release, findings, elapsed)
    decision = _at_stage(release, traffic, findings, elapsed)
    left = release.spec.stages[release.stage].deadline - elapsed
    if not isinstance(decision, Hold):
        return decision
    if left < timedelta(0):
        return Expire(f"Not decided in the time of its stage. {decision.reason}")
    return Hold(f"{decision.reason} Fails if that takes more than {_span(left)}.")


def _watched(release: Release, findings: Sequence[Finding], elapsed: timedelta) -> Decision:
    watch = release.spec.watch
    suspected = "; ".join(finding.text for finding in findings if finding.suspected)
    seen = f"Looks worse than allowed, in too little traffic to be sure: {suspected}." if suspected else ""
    if elapsed < watch:
        return Hold(f"Watched for {_span(watch - elapsed)} more as the champion. {seen}".strip())
    if not any(finding.beyond for finding in findings):
        return Advance(f"Watched for {_span(watch)}, with too little traffic of {release.baseline} to compare with.")
    if suspected:
        return Advance(f"Watched for {_span(watch)} as the champion. {seen}")
    return Advance(f"Watched for {_span(watch)} as the champion, and not found to be worse than allowed.")


def _at_stage(release: Release, traffic: Traffic, findings: Sequence[Finding], elapsed: timedelta) -> Decision:
    stage, share = release.spec.stages[release.stage], f"{release.percent} %"
    answered, scored = traffic.candidate.answered, traffic.scores.number(Arm.CANDIDATE)
    if elapsed < stage.min_duration:
        return Hold(f"Held at {share}: the stage lasts {_span(stage.min_duration - elapsed)} more.")
    if not traffic.candidate.requests and stage.min_samples:
        awaited = f"{stage.min_samples:,} requests are awaited"
        return Hold(f"Held at {share}: nobody has asked {release.candidate} yet; {awaited}.")
    if answered < stage.min_samples:
        return Hold(f"Held at {share}: {answered:,} of the {stage.min_samples:,} requests that the stage waits for.")
    if scored < stage.min_scored:
        return Hold(f"Held at {share}: {scored:,} of the {stage.min_scored:,} scored answers that the stage waits for.")
    suspected = [finding for finding in findings if finding.suspected]
    if suspected:
        worse = "; ".join(finding.text for finding in suspected)
        until = _foreseen(suspected, traffic.candidate)
        return Hold(
            f"Held at {share}: {worse}. That looks worse than allowed, and is too little traffic to be sure."
            f"{f' Rolled back at about {until} if it stays so.' if until else ''}"
        )
    following = f"{release.candidate} becomes the champion" if release.last_stage else f"Next: {_next(release)} %"
    unproven = _unproven(release, findings)
    if not unproven:
        seen = "; ".join(finding.text for finding in findings if finding.beyond)
        if not traffic.candidate.requests:
            return Advance(f"Nobody has asked {release.candidate} at {share}, so nothing is known of it. {following}.")
        if not seen:
            return Advance(f"Nothing could be compared at {share}. {following}.")
        return Advance(f"Within bounds at {share}: {seen}. {following}.")
    missing = _missing(unproven)
    if release.spec.unproven is Unproven.PROCEED:
        if not traffic.candidate.requests:
            return Advance(f"Nobody has asked {release.candidate} at {share}, so nothing is known of it. {following}.")
        return Advance(f"Nothing looks worse than allowed at {share}. It is to proceed, though {missing}. {following}.")
    until = _foreseen(unproven, traffic.candidate)
    return Hold(f"Held at {share}: {missing}.{f' Continues at about {until}.' if until else ''}")


def _unproven(release: Release, findings: Sequence[Finding]) -> Sequence[Finding]:
    """The bounds that must be shown to hold before a larger share is given, and are not. The last stage gives no larger
    share: the findings of earlier stages stand, if traffic of the same time can be compared at all."""
    if release.last_stage and release.stage:
        of_stage = [finding for finding in findings if finding.bound is not Bound.QUALITY]
        return [finding for finding in of_stage if not finding.beyond] if release.percent < 100 else ()
    is_small = not release.last_stage and _next(release) <= UNPROVEN_UP_TO
    return () if is_small else [finding for finding in findings if not finding.holds]


def _next(release: Release) -> int:
    return min(release.spec.stages[release.stage + 1].percent, 100 - release.spec.baseline_percent)


def _missing(unproven: Sequence[Finding]) -> str:
    """The kinds of traffic of which there is too little, with the bounds that need it."""
    kinds: dict[str, list[str]] = {}
    for finding in unproven:
        if finding.beyond:
            kinds.setdefault(finding.rests_on, []).append(f"rule out {finding.claim}")
    said = [f"{rests_on} are too few to {', or to '.join(uses)}" for rests_on, uses in kinds.items()]
    if nouns := [finding.bound.noun for finding in unproven if not finding.beyond]:
        said.append(f"to compare {', '.join(nouns)}, each version needs traffic of {MIN_UNITS} users")
    return "; ".join(said)


def _foreseen(findings: Sequence[Finding], candidate: ArmSample) -> str:
    """The candidate's requests at which all of them are decided, if what comes is like what came: so as many more users
    have to come. Requests of the same users alone decide little."""
    times = [one for finding in findings if (one := finding.decided_at)]
    if len(times) < len(findings):
        return ""
    leaving = candidate.leaving  # those who left, too: they may be all
    requests, users = (_two_digits(max(times) * now) for now in (leaving.x, leaving.units))
    return f"{requests:,} requests of {users:,} users ({leaving.units:,} so far)"


def _two_digits(number: float) -> int:
    """Rounded up."""
    step = int(10 ** max(len(str(int(number))) - 2, 0))
    return math.ceil(number / step) * step


def _span(time: timedelta) -> str:
    seconds = math.ceil(time.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    return f"{math.ceil(seconds / 60)} min" if seconds < 7200 else f"{math.ceil(seconds / 3600)} h"
