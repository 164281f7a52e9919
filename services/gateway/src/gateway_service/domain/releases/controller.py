"""Moves releases forward: loads the candidate, judges its traffic, then advances, rolls back or promotes it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gateway_service.domain.experiments.ports import ExperimentStore
from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.releases.decision import Advance, Expire, Hold, RollBack, decide
from gateway_service.domain.releases.evidence import TrafficReader
from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.release import Release, State
from gateway_service.domain.releases.under_way import Uses
from gateway_service.domain.serving import Serving
from gateway_service.domain.traffic.ports import CompletionLog
from ratchet_kit import metrics
from ratchet_kit.errors import Aborted, DeadlineExceeded, FailedPrecondition, Internal, NotFound, RatchetError
from ratchet_kit.logs import bound, get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from ratchet_kit.work import every, surviving

log = get_logger(__name__)
_set_aside = metrics.counter("gateway_releases_set_aside", "Releases that were given up, since their next step breaks")
_percent = metrics.gauge(
    "gateway_release_percent", "Share of its model's traffic that a release's candidate gets", ("model", "version")
)
_ended = metrics.counter("gateway_releases_ended", "Releases that ended", ("model", "state"))

TRIES = 8
"""Steps of one release that break in a row, within half a minute: then it is set aside."""
LONGEST_REST = timedelta(minutes=1)
PASSING: tuple[type[Exception], ...] = (*OUTSIDE, TimeoutError)
"""Faults that are waited out, for as long as they last."""


@dataclass(frozen=True, slots=True)
class ControlOptions:
    tick: timedelta = timedelta(seconds=1)
    """Between two looks at the releases."""
    prepare_timeout: timedelta = timedelta(minutes=10)
    """For loading a candidate; a release that takes longer fails."""
    drain: timedelta = timedelta(seconds=30)
    """Between the end of a release and unloading the version that lost, for requests under way."""
    settle: timedelta = timedelta(seconds=30)
    """For falling back: longer than a call that sets the champion may take, so that one sent before is over by then."""
    patience: timedelta = timedelta(seconds=5)
    """How long a look waits for a step of one release."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Steps of a release that broke, one after another."""

    steps: int
    end_time: datetime
    """Until then the release is left alone."""


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
        experiments: ExperimentStore | None = None,
    ) -> None:
        """`experiments`: those under way keep their versions loaded."""
        self._releases = releases
        self._traffic = TrafficReader(traffic, clock)
        self._serving = serving
        self._uses = Uses(releases, registry, experiments)
        self._registry = registry
        self._clock = clock
        self._options = options
        self._moving: dict[str, asyncio.Task[None]] = {}
        self._troubles: dict[str, Trouble] = {}
        self._shown: set[tuple[str, str]] = set()
        """Labels of candidates that have a share in the metrics."""

    async def run(self, stop: asyncio.Event) -> None:
        try:
            await every(self._options.tick, stop, self.tick, name="move releases")
        finally:
            for task in self._moving.values():
                task.cancel()

    async def tick(self) -> None:
        """One step per release. A step that fails is tried again at the next tick; one that takes long is left to go
        on, and one that breaks is tried for a while, until its release is set aside. None holds up another release."""
        unfinished = await self._releases.unfinished()
        self._troubles = {one.id: self._troubles[one.id] for one in unfinished if one.id in self._troubles}
        self._show(unfinished)
        for release in unfinished:
            if release.id not in self._moving and not self._is_resting(release):
                self._moving[release.id] = asyncio.create_task(self._move(release))
        if self._moving:
            await asyncio.wait(self._moving.values(), timeout=self._options.patience.total_seconds())
        self._moving = {id: task for id, task in self._moving.items() if not task.done()}

    async def _move(self, release: Release) -> None:
        with surviving("move release", release_id=release.id, state=release.state):
            try:
                after = await self._step(release)
            except PASSING:
                raise
            except Exception as error:
                after = self._give_up(release, error)
                if after == release:
                    raise
                log.exception("release.set_aside", release_id=release.id, state=after.state)
                _set_aside.inc()
                if not after.active:
                    del self._troubles[release.id]
            else:
                self._troubles.pop(release.id, None)
            if after is not release:
                await self._releases.save(after)
                if release.active and not after.active:
                    _ended.labels(release.model, after.state.value).inc()
                log.info("release.moved", release_id=release.id, state=after.state, percent=after.percent)

    def _show(self, unfinished: Sequence[Release]) -> None:
        """The share of each candidate; 0 of one whose release has ended since the last look."""
        now = {(one.model, str(one.candidate.number)): one.percent for one in unfinished if one.active}
        for labels in self._shown | now.keys():
            _percent.labels(*labels).set(now.get(labels, 0))
        self._shown = set(now)

    def _is_resting(self, release: Release) -> bool:
        trouble = self._troubles.get(release.id)
        return trouble is not None and self._clock.now() < trouble.end_time

    def _give_up(self, release: Release, error: Exception) -> Release:
        """The same release while it is worth trying again: what breaks may be mended, or somebody else's fault."""
        now = self._clock.now()
        steps = self._troubles[release.id].steps + 1 if release.id in self._troubles else 1
        rest = min(self._options.tick * (2 ** min(steps, 12) // 16), LONGEST_REST)  # none at first, then ever longer
        self._troubles[release.id] = Trouble(steps, now + rest)
        if steps < TRIES:
            return release
        internal = Internal(f"an internal error of the gateway ({type(error).__name__}); its log has the trace")
        return release.give_up(now, error if isinstance(error, RatchetError) else internal)

    async def _step(self, release: Release) -> Release:
        match release.state:
            case State.PREPARING:
                return await self._prepare(release)
            case State.PROGRESSING | State.WATCHING:
                for ref in (release.candidate, release.baseline):
                    await self._warm(ref)
                return await self._judge(release)
            case State.PAUSED:
                return release
            case State.PROMOTING:
                return await self._promote(release)
            case State.FALLING_BACK:
                return await self._fall_back(release)
            case _:
                return await self._retire(release)

    async def _warm(self, ref: VersionRef) -> None:
        """Asks for it to be loaded, at each look: a gateway or an engine may have been started during the release."""
        with suppress(RatchetError):  # Serving logs it; meanwhile the baseline answers
            await self._serving.ensure(ref, wait=timedelta(0))

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
        return (await self._timed(release)).begin(now)

    async def _judge(self, release: Release) -> Release:
        now = self._clock.now()
        match decide(release, await self._traffic.read(release), now):
            case Hold():
                return await self._timed(release)
            case RollBack(reason):
                return release.roll_back(now, reason)
            case Expire(reason):
                return release.fail(now, DeadlineExceeded(reason))
            case Advance(reason) if release.last_stage or release.state is State.WATCHING:
                return release.promote(now, reason)
            case Advance(reason):
                return (await self._timed(release)).advance(now, reason)

    async def _timed(self, release: Release) -> Release:
        """With the baseline's p95 as it is now, while it answers at least half of the requests: one that answers few
        is less busy, and faster for that alone."""
        if release.percent > 50 and release.baseline_p95:
            return release
        p95 = await self._traffic.baseline_p95(release)
        return release if p95 is None or p95 == release.baseline_p95 else replace(release, baseline_p95=p95)

    async def _promote(self, release: Release) -> Release:
        """Sets the alias where it is as the release believes; a controller that died after that finds it set."""
        now, champion = self._clock.now(), (await self._registry.model(release.model)).champion
        if champion == release.candidate:
            return release.succeed(now)
        if champion != release.baseline:
            return release.fail(now, FailedPrecondition(f"the champion is {champion} by now, not {release.baseline}"))
        try:
            with bound(actor=_actor(release)):
                await self._registry.promote(
                    release.candidate, release.baseline, release.spec.gate_id, f"release {release.id} succeeded"
                )
        except (FailedPrecondition, NotFound) as error:
            return release.fail(now, FailedPrecondition(f"the registry refuses the new champion: {error.message}"))
        except Aborted:
            return release  # it moved at the same moment: the next look says where to
        return release.succeed(now)

    async def _fall_back(self, release: Release) -> Release:
        """Sets the champion back, and ends once no call that promotes it can be under way."""
        assert release.stage_start_time is not None, "falling back has a start"
        now = self._clock.now()
        if (await self._registry.model(release.model)).champion == release.candidate:
            with bound(actor=_actor(release)), suppress(Aborted):
                await self._registry.take_back(
                    release.candidate, release.baseline, f"release {release.id}: {release.events[-1].reason}"
                )
            return release
        settled = now - release.stage_start_time >= self._options.settle
        return release.fallen_back(now) if settled else release

    async def _retire(self, release: Release) -> Release:
        assert release.end_time is not None, "an ended release has an end"
        now = self._clock.now()
        if now - release.end_time < self._options.drain:
            return release
        if not await self._uses.find(release.loser):
            await self._serving.unload(release.loser)
        return release.retire(now)


def _actor(release: Release) -> str:
    """Who moves the champion: who asked for the last step, or else who created the release."""
    return release.events[-1].actor or release.actor
