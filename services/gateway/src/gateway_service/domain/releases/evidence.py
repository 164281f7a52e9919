"""The traffic that a release is judged by."""

from dataclasses import dataclass
from datetime import timedelta

from gateway_service.domain.releases.release import Release, State
from gateway_service.domain.statistics.moments import MIN_UNITS
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import NO_TRAFFIC, ArmSample, Period

REFERENCE = timedelta(days=3)
"""Before the release: the baseline's traffic of these days stands in where the release gave it too little."""
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


class TrafficReader:
    """Reads the sums of a release. The days before it are read once, as soon as they hold enough."""

    def __init__(self, log: CompletionLog) -> None:
        self._log = log
        self._references: dict[str, ArmSample] = {}

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
        known = self._references.get(release.id)
        if known is None:
            period = Period(release.create_time - REFERENCE, release.create_time)
            known = await self._log.version_sample(release.baseline, period)
            if min(known.failures.units, known.scores.units) >= MIN_UNITS:
                while len(self._references) >= MAX_REFERENCES:
                    del self._references[next(iter(self._references))]
                self._references[release.id] = known
        return known
