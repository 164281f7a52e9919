"""What a look at a release reads: it costs the same however much traffic there was before."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from gateway_service.adapters.memory import MemoryCompletionLog
from gateway_service.adapters.memory_experiments import MemoryExperimentStore
from gateway_service.domain.releases.evidence import READ_AGAIN, TrafficReader
from gateway_service.domain.releases.release import Release, ReleaseSpec, Stage
from gateway_service.domain.statistics.moments import Moments
from gateway_service.domain.traffic.sample import ArmSample, Period
from ratchet_kit.names import VersionRef
from ratchet_testing import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC = ReleaseSpec(VersionRef("starter", 2), "gate", (Stage(25, timedelta(minutes=1), 50), Stage(100, timedelta(0), 0)))
RELEASE = Release("rel_1", SPEC, baseline=VersionRef("starter", 1), create_time=NOW).begin(NOW)
MANY = Moments.of(np.ones(50), np.zeros(50))


class Log(MemoryCompletionLog):
    """Counts how often the days before a release are gone through."""

    def __init__(self, before: ArmSample) -> None:
        super().__init__(MemoryExperimentStore())
        self.before = before
        self.read = 0

    async def version_sample(self, ref: VersionRef, period: Period) -> ArmSample:
        self.read += 1
        return self.before


@pytest.mark.parametrize("before", [ArmSample(MANY), ArmSample(), ArmSample(MANY, MANY)])
async def test_the_days_before_are_not_gone_through_at_each_look(clock: ManualClock, before: ArmSample) -> None:
    """Nor where nobody gives feedback, and where there was no traffic."""
    log = Log(before)
    reader = TrafficReader(log, clock)
    for _ in range(60):
        assert (await reader.read(RELEASE)).reference == before
        clock.advance(timedelta(seconds=1))
    assert log.read == 1


async def test_feedback_that_comes_late_is_seen(clock: ManualClock) -> None:
    log = Log(ArmSample(MANY))
    reader = TrafficReader(log, clock)
    await reader.read(RELEASE)
    log.before = ArmSample(MANY, MANY)
    clock.advance(READ_AGAIN)
    assert (await reader.read(RELEASE)).reference.scored == 50
    clock.advance(READ_AGAIN)
    await reader.read(RELEASE)
    assert log.read == 2
