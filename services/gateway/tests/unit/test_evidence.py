"""What a look at a release reads: arms of the same time, or a step where no share stays with the baseline."""

from dataclasses import replace
from datetime import timedelta

import numpy as np

from gateway_service.domain.releases.evidence import STEP_WINDOW, TrafficReader
from gateway_service.domain.releases.release import Release, ReleaseSpec, Stage
from gateway_service.domain.statistics.moments import Moments
from gateway_service.domain.traffic.sample import NO_TRAFFIC, ArmSample, Period
from ratchet_kit.names import VersionRef
from ratchet_testing import ManualClock

from ..memory import MemoryCompletionLog

STAGES = (Stage(25, timedelta(minutes=1), 50), Stage(100, timedelta(0), 0))
SPEC = ReleaseSpec(VersionRef("starter", 2), "gate", STAGES, baseline_percent=0)
BEFORE = ArmSample(Moments.of(np.ones(50), np.zeros(50)))


class Log(MemoryCompletionLog):
    """Has what was before, and keeps which times it was read of."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[Period] = []

    async def version_sample(self, ref: VersionRef, period: Period) -> ArmSample:
        self.read.append(period)
        return BEFORE


def at_full(clock: ManualClock, spec: ReleaseSpec = SPEC) -> Release:
    new = Release("rel_1", spec, baseline=VersionRef("starter", 1), create_time=clock.now())
    return new.begin(clock.now()).advance(clock.now(), "")


async def test_without_a_share_the_baseline_is_that_of_just_before_and_for_as_long_after(clock: ManualClock) -> None:
    log, release = Log(), at_full(clock)
    reader, start = TrafficReader(log, clock), clock.now()
    for _ in range(10):
        assert (await reader.read(release)).baseline == BEFORE
        clock.advance(STEP_WINDOW / 10)
    assert log.read == [Period(start - STEP_WINDOW, start)]
    clock.advance(timedelta(seconds=1))
    assert (await reader.read(release)).baseline == NO_TRAFFIC


async def test_a_share_with_the_baseline_is_compared_at_the_same_time(clock: ManualClock) -> None:
    log, kept = Log(), replace(SPEC, baseline_percent=1)
    release = at_full(clock, kept)
    for judged in (release, release.promote(clock.now(), "").succeed(clock.now())):
        assert judged.percent == 99
        assert (await TrafficReader(log, clock).read(judged)).baseline == NO_TRAFFIC
    assert not log.read
