"""Moves releases forward: loads the candidate, judges its traffic, then advances, rolls back or promotes it."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.releases.decision import Advance, Hold, RollBack, decide
from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.release import Release, State
from gateway_service.domain.serving import Serving
from gateway_service.domain.traffic.ports import CompletionLog
from ratchet_kit.errors import Aborted, DeadlineExceeded, FailedPrecondition, NotFound, RatchetError
from ratchet_kit.logs import bound, get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from ratchet_kit.work import every, surviving

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControlOptions:
    tick: timedelta = timedelta(seconds=1)
    """Between two looks at the releases."""
    prepare_timeout: timedelta = timedelta(minutes=10)
    """For loading a candidate; a release that takes longer fails."""
    drain: timedelta = timedelta(seconds=30)
    """Between the end of a release and unloading the version that lost, for requests under way."""
    reference: timedelta = timedelta(days=1)
    """The baseline's traffic counts from this long before the release."""
    patience: timedelta = timedelta(seconds=5)
    """How long a look waits for a step of one release."""


class ReleaseController:
    """Takes at most one step per unfinished release and tick.

    Its state is in the store, so it continues after a restart. Several controllers may run: only the one that saw the
    latest revision can store a step, and a step's effects outside (load, promote, unload) may be repeated.
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
        self._moving: dict[str, asyncio.Task[None]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        try:
            await every(self._options.tick, stop, self.tick, name="move releases")
        finally:
            for task in self._moving.values():
                task.cancel()

    async def tick(self) -> None:
        """One step per release. A step that fails is tried again at the next tick; one that takes long is left to go
        on, and holds up no other release."""
        for release in await self._releases.unfinished():
            if release.id not in self._moving:
                self._moving[release.id] = asyncio.create_task(self._move(release))
        if self._moving:
            await asyncio.wait(self._moving.values(), timeout=self._options.patience.total_seconds())
        self._moving = {id: task for id, task in self._moving.items() if not task.done()}

    async def _move(self, release: Release) -> None:
        with surviving("move release", release_id=release.id, state=release.state):
            after = await self._step(release)
            if after is not release:
                await self._releases.save(after)
                log.info("release.moved", release_id=release.id, state=after.state, percent=after.percent)

    async def _step(self, release: Release) -> Release:
        match release.state:
            case State.PREPARING:
                return await self._prepare(release)
            case State.PROGRESSING:
                return await self._judge(release)
            case _:
                return await self._retire(release)

    async def _prepare(self, release: Release) -> Release:
        now = self._clock.now()
        try:
            await self._serving.ensure(release.candidate, wait=timedelta(0))
        except OUTSIDE as error:
            if now - release.create_time > self._options.prepare_timeout:
                return release.fail(now, DeadlineExceeded(f"the candidate was not ready in time: {error.message}"))
            return release
        except RatchetError as error:
            return release.fail(now, error)
        return release.begin(now)

    async def _judge(self, release: Release) -> Release:
        now = self._clock.now()
        traffic = await self._traffic.traffic(
            release.id, release.stage, release.baseline, release.create_time - self._options.reference
        )
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
        """Sets the alias, then ends the release. A process that dies between the two finds the alias set afterwards."""
        try:
            if (await self._registry.model(release.model)).champion != release.candidate:
                with bound(actor=release.actor):  # who created the release promotes its candidate
                    await self._registry.promote(
                        release.candidate, release.baseline, release.spec.gate_id, f"release {release.id} succeeded"
                    )
        except (FailedPrecondition, NotFound, Aborted) as error:
            refusal = FailedPrecondition(f"the registry refuses the new champion: {error.message}")
            return release.fail(self._clock.now(), refusal)
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
        if active is not None and ref in (active.candidate, active.baseline):
            return True
        return (await self._registry.model(ref.model)).champion == ref
