"""The traffic that a release is judged by."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway_service.domain.releases.release import Release, State
from gateway_service.domain.statistics.moments import MIN_UNITS
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import NO_TRAFFIC, ArmSample, Period
from ratchet_kit.times import Clock

REFERENCE = timedelta(days=3)
"""Before the release: the baseline's traffic of these days stands in where the release gave it too little."""
READ_AGAIN = timedelta(minutes=5)
"""Where these hold too little to judge by: answers of then may get their feedback late. They are many to go through."""
MAX_REFERENCES = 100


@dataclass(frozen=True, slots=True)
class Traffic:
    """The arms in the present stage, and in all stages so far. While a release is watched, the candidate's `so_far` is
    of the watch alone: what came before would hide a drop."""

    candidate: ArmSample = NO_TRAFFIC
    baseline: ArmSample = NO_TRAFFIC
    candidate_so_far: ArmSample = NO_TRAFFIC
    baseline_so_far: ArmSample = NO_TRAFFIC
    reference: ArmSample = NO_TRAFFIC
    """The baseline's version in the days before the release."""


@dataclass(frozen=True, slots=True)
class _Reference:
    sample: ArmSample
    read_time: datetime

    @property
    def is_little(self) -> bool:
        return min(self.sample.failures.units, self.sample.scores.units) < MIN_UNITS


class TrafficReader:
    """Reads the sums of a release. The days before it are read once; now and then while they hold too little."""

    def __init__(self, log: CompletionLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._references: dict[str, _Reference] = {}

    async def read(self, release: Release) -> Traffic:
        """Raises Unavailable."""
        first = release.stage if release.state is State.WATCHING else 0
        candidate = await self._log.release_sample(release.id, Arm.CANDIDATE, release.stage)
        baseline = await self._log.release_sample(release.id, Arm.BASELINE, release.stage)
        if not release.active:
            return Traffic(candidate, baseline)  # nothing is decided any more
        if release.stage == 0:
            return Traffic(candidate, baseline, candidate, baseline, await self._reference(release))
        return Traffic(
            candidate,
            baseline,
            candidate if first else await self._log.release_sample(release.id, Arm.CANDIDATE, 0),
            await self._log.release_sample(release.id, Arm.BASELINE, 0),
            await self._reference(release),
        )

    async def _reference(self, release: Release) -> ArmSample:
        now, known = self._clock.now(), self._references.get(release.id)
        if known is None or (known.is_little and now - known.read_time >= READ_AGAIN):
            period = Period(release.create_time - REFERENCE, release.create_time)
            known = _Reference(await self._log.version_sample(release.baseline, period), now)
            self._references.pop(release.id, None)
            while len(self._references) >= MAX_REFERENCES:
                del self._references[next(iter(self._references))]
            self._references[release.id] = known
        return known.sample
