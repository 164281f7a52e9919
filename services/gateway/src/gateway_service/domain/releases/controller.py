"""Moves releases forward: loads candidates, watches their traffic, advances, rolls back, promotes, tidies up."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from gateway_service.domain.decisions import Advance, Hold, RollBack, decide
from gateway_service.domain.ports import CompletionLog, ModelRegistry, ReleaseStore
from gateway_service.domain.releases import Release, ReleaseState
from gateway_service.domain.serving import Serving
from gateway_service.domain.targets import VersionRef
from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock

log = get_logger(__name__)

TRANSIENT = (Unavailable, Aborted)


@dataclass(frozen=True)
class ControlOptions:
    """`prepare_timeout`: to load a candidate. `drain`: between the end of a release and unloading the version that
    lost, for requests on their way. `reference`: how long before the release the baseline's traffic still counts."""

    tick: timedelta = timedelta(seconds=1)
    prepare_timeout: timedelta = timedelta(minutes=10)
    drain: timedelta = timedelta(seconds=30)
    reference: timedelta = timedelta(days=1)


class ReleaseController:
    """Looks at each unfinished release once a tick and takes at most one step.

    All it knows is in the store, so it goes on after a restart. Several controllers may run: a step is stored only by
    the one that saw the latest revision, and what a step does outside (load, promote, unload) may be done twice.
    """

    def __init__(
        self,
        releases: ReleaseStore,
        traffic: CompletionLog,
        serving: Serving,
        registry: ModelRegistry,
        clock: Clock,
        options: ControlOptions,
    ) -> None:
        self._releases = releases
        self._traffic = traffic
        self._serving = serving
        self._registry = registry
        self._clock = clock
        self._options = options

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self.tick()
            except RatchetError as e:
                log.warning("releases cannot be read, trying again", error=e.message)
            try:
                await asyncio.wait_for(stop.wait(), self._options.tick.total_seconds())
            except TimeoutError:
                pass

    async def tick(self) -> None:
        """One step of each release; what is unavailable now is tried again at the next tick."""
        for release in await self._releases.unfinished():
            try:
                after = await self._step(release)
                if after is not release:
                    await self._releases.save(after)
                    log.info("release moved", release=release.id, state=after.state, percent=after.percent)
            except TRANSIENT as e:
                log.warning("release waits", release=release.id, state=release.state, error=e.message)

    async def _step(self, release: Release) -> Release:
        match release.state:
            case ReleaseState.PREPARING:
                return await self._prepare(release)
            case ReleaseState.PROGRESSING:
                return await self._judge(release)
            case _:
                return await self._retire(release)

    async def _prepare(self, release: Release) -> Release:
        now = self._clock.now()
        try:
            await self._serving.ensure(release.candidate_ref, wait=timedelta(0))
        except Unavailable as e:
            if now - release.create_time > self._options.prepare_timeout:
                return release.fail(now, f"the candidate was not ready in time: {e.message}")
            return release
        except RatchetError as e:
            return release.fail(now, e.message)
        return release.begin(now)

    async def _judge(self, release: Release) -> Release:
        now = self._clock.now()
        traffic = await self._traffic.traffic(release, release.create_time - self._options.reference)
        match decide(release, traffic, now):
            case Hold():
                return release
            case RollBack(reason):
                return release.roll_back(now, reason)
            case Advance(reason) if release.last_stage:
                return await self._promote(release, reason)
            case Advance(reason):
                return release.advance(now, reason)

    async def _promote(self, release: Release, reason: str) -> Release:
        """The alias first: if this process dies between the two, the next one finds it set and only notes the end."""
        try:
            if (await self._registry.model(release.spec.model)).champion != release.spec.candidate:
                await self._registry.promote(
                    release.candidate_ref, release.spec.gate_id, f"release {release.id} succeeded"
                )
        except (FailedPrecondition, NotFound) as e:
            return release.fail(self._clock.now(), f"the registry refuses the new champion: {e.message}")
        return release.succeed(self._clock.now(), reason)

    async def _retire(self, release: Release) -> Release:
        assert release.end_time is not None, "an ended release has an end"
        now = self._clock.now()
        if now - release.end_time < self._options.drain:
            return release
        if not await self._in_use(release.loser):
            await self._serving.unload(release.loser)
        return release.retire(now)

    async def _in_use(self, ref: VersionRef) -> bool:
        active = await self._releases.active(ref.model)
        if active is not None and ref in (active.candidate_ref, active.baseline_ref):
            return True
        return (await self._registry.model(ref.model)).champion == ref.number
