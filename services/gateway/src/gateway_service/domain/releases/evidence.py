"""The traffic that a release is judged by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import numpy as np

from gateway_service.domain.releases.release import Release, State
from gateway_service.domain.statistics.moments import Moments
from gateway_service.domain.statistics.strata import NO_STRATA, Strata
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import LATENCY_QUANTILE, NO_TRAFFIC, ArmSample, Period, UnitLatency, quantile
from ratchet_kit.times import Clock

K = TypeVar("K")
V = TypeVar("V")
STEP_WINDOW = timedelta(minutes=5)
"""Before and after the candidate gets all traffic: where the baseline keeps no share, a step is looked for there."""
MAX_KNOWN = 100
MIN_LATENCIES = 100
"""For a p95. It sets where slow begins, the same for both arms, so it need not be exact."""
TIMED_EVERY = timedelta(minutes=1)
MOVED = 0.1
"""By how much of itself a p95 has to have moved to be taken anew: 1,000 answers do not say it more exactly."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The arms in the present stage, at the same time, and the scores of all stages.

    Where no share stays with the baseline, its sample is of the STEP_WINDOW before the candidate got all traffic, and
    only for as long after it: what changes later has nothing beside it that it could be compared with.
    """

    candidate: ArmSample = NO_TRAFFIC
    baseline: ArmSample = NO_TRAFFIC
    scores: Strata = NO_STRATA


class TrafficReader:
    """Reads the sums of a release, and once what was before a stage without a baseline."""

    def __init__(self, log: CompletionLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._before: dict[tuple[str, int], ArmSample] = {}
        self._timed: dict[str, datetime] = {}

    async def read(self, release: Release) -> Traffic:
        """Raises Unavailable."""
        candidate = await self._log.release_sample(release.id, Arm.CANDIDATE, release.stage)
        if release.state in (State.PROGRESSING, State.WATCHING) and release.percent == 100:
            baseline = await self._baseline_before(release)
        else:
            baseline = await self._log.release_sample(release.id, Arm.BASELINE, release.stage)
        if not release.active:
            return Traffic(candidate, baseline)  # nothing is decided any more
        return Traffic(candidate, baseline, await self._log.release_scores(release.id))

    async def baseline_p95(self, release: Release) -> timedelta | None:
        """The baseline's p95 latency over its latest answers to anyone; None while they are few. What the release knows
        stands for TIMED_EVERY, and while it has hardly moved. Raises Unavailable."""
        known, now = release.baseline_p95, self._clock.now()
        if known and now - self._timed.get(release.id, datetime.min.replace(tzinfo=UTC)) < TIMED_EVERY:
            return known
        latencies = sorted(one.latency for one in await self._log.latest_latencies(release.baseline))
        if len(latencies) < MIN_LATENCIES:
            return known
        _remember(self._timed, release.id, now)
        p95 = timedelta(seconds=quantile(tuple(latencies), LATENCY_QUANTILE))
        return known if known and abs(p95 / known - 1) < MOVED else p95

    async def _baseline_before(self, release: Release) -> ArmSample:
        assert release.stage_start_time is not None, "a release in progress has a stage"
        start, key = release.stage_start_time, (release.id, release.stage)
        if self._clock.now() - start > STEP_WINDOW:
            return NO_TRAFFIC
        if key not in self._before:
            sample = await self._log.version_sample(release.baseline, Period(start - STEP_WINDOW, start))
            slowness = _slower(sample.latencies, release.slow_after(Arm.BASELINE))
            _remember(self._before, key, replace(sample, slowness=slowness))
        return self._before[key]


def _remember(known: dict[K, V], key: K, value: V) -> None:
    """The oldest of MAX_KNOWN makes room."""
    known.pop(key, None)
    while len(known) >= MAX_KNOWN:
        del known[next(iter(known))]
    known[key] = value


def _slower(latencies: Sequence[UnitLatency], limit: timedelta | None) -> Moments:
    if limit is None or not latencies:
        return Moments()
    _, numbers = np.unique([one.unit for one in latencies], return_inverse=True)
    slow = np.asarray([one.latency > limit.total_seconds() for one in latencies], float)
    return Moments.of(np.bincount(numbers), np.bincount(numbers, weights=slow))
