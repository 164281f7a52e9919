"""Operations of users on releases: create, get, list, watch, pause, resume, promote, roll back."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.releases.decision import decide
from gateway_service.domain.releases.evidence import Traffic, TrafficReader
from gateway_service.domain.releases.findings import Finding, look
from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.release import Release, ReleaseSpec, State
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.sample import NO_TRAFFIC, ArmSample
from ratchet_kit.errors import FailedPrecondition, NotFound, RatchetError
from ratchet_kit.faults import check_reason
from ratchet_kit.idempotency import Request, once
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from ratchet_kit.work import watch

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """A release with the traffic of its arms in its present (or last) stage."""

    release: Release
    baseline: ArmSample
    candidate: ArmSample
    waits_for: str = ""
    """Obstacle to its next move, in words; empty when it has ended."""
    findings: Sequence[Finding] = ()
    """Finding of its traffic for each bound; empty unless it is judged now."""


class Releases:
    """The use cases around releases; `ReleaseController` does the moving."""

    def __init__(
        self,
        releases: ReleaseStore,
        traffic: CompletionLog,
        registry: ModelRegistry,
        clock: Clock,
        watch_poll: timedelta,
    ) -> None:
        self._releases = releases
        self._traffic = TrafficReader(traffic, clock)
        self._registry = registry
        self._clock = clock
        self._watch_poll = watch_poll

    async def create(self, request_id: str, spec: ReleaseSpec, actor: str = "") -> ReleaseView:
        """Idempotent under `request_id`; an empty one makes a new release. `actor`: the API key that asks for it.

        Raises InvalidArgument that names all fields at fault, NotFound for an unknown model or version,
        FailedPrecondition without a passed gate or with a release or an experiment under way, AlreadyExists when the
        request id was used for another spec.
        """
        spec.check()
        request = Request.of(request_id, spec)

        async def create() -> Release:
            return await self._releases.create(await self._new(spec, actor), request)

        return await self._view(await once(lambda: self._releases.find(request), create))

    async def get(self, release_id: str) -> ReleaseView:
        """Raises NotFound."""
        return await self._view(await self._releases.get(release_id))

    async def page(self, model: str, page_size: int, page_token: str) -> Page[ReleaseView]:
        """Newest first. Raises InvalidArgument for a page token that no list returned."""

        async def fetch(limit: int, after: str | None) -> Sequence[Release]:
            return await self._releases.page(model, limit, after)

        page = await fetch_page(fetch, lambda release: release.id, str, page_size, page_token)
        return Page([await self._view(release) for release in page.items], page.next_page_token)

    async def roll_back(self, release_id: str, reason: str, actor: str = "") -> ReleaseView:
        """All traffic back to the baseline, now. Idempotent, as the three below are.

        Each raises InvalidArgument for a reason that is too long, NotFound, FailedPrecondition when its state does not
        allow it, Aborted when it moved at the same moment.
        """
        reason = check_reason(reason) or "rolled back by a user"
        release = await self._releases.get(release_id)
        return await self._saved(release, release.roll_back(self._clock.now(), reason, actor))

    async def pause(self, release_id: str, reason: str, actor: str = "") -> ReleaseView:
        """All traffic to the baseline, until it is resumed."""
        reason = check_reason(reason) or "paused by a user"
        release = await self._releases.get(release_id)
        return await self._saved(release, release.pause(self._clock.now(), reason, actor))

    async def resume(self, release_id: str, reason: str, actor: str = "") -> ReleaseView:
        """On with the stage that was paused."""
        reason = check_reason(reason) or "resumed by a user"
        release = await self._releases.get(release_id)
        return await self._saved(release, release.resume(self._clock.now(), reason, actor))

    async def promote(self, release_id: str, reason: str, actor: str = "") -> ReleaseView:
        """The candidate becomes the champion whatever its stages say; while it is watched, that ends."""
        reason = check_reason(reason) or "promoted by a user"
        release = await self._releases.get(release_id)
        return await self._saved(release, release.promote(self._clock.now(), reason, actor))

    def watch(self, release_id: str) -> AsyncIterator[ReleaseView]:
        """The release now, then at each change of it or of its traffic, until it ends. Raises NotFound."""
        return watch(
            lambda: self.get(release_id),
            lambda view: not view.release.active,
            key=lambda view: replace(view, waits_for=""),  # which counts the seconds
            interval=self._watch_poll,
        )

    async def _new(self, spec: ReleaseSpec, actor: str) -> Release:
        candidate, model = spec.candidate, spec.candidate.model
        champion = (await self._registry.model(model)).champion
        if champion is None:
            raise FailedPrecondition(f"model {model} has no champion to move traffic from: set one first")
        if champion == candidate:
            raise FailedPrecondition(f"{candidate} is the champion already")
        await self._registry.version(candidate)
        release = Release(id=new_id("rel"), spec=spec, baseline=champion, create_time=self._clock.now(), actor=actor)
        await self._check_gate(release)
        return release

    async def _check_gate(self, release: Release) -> None:
        gate_id = release.spec.gate_id
        if not gate_id:
            raise FailedPrecondition(f"a release needs a passed gate: create one for {release.candidate}")
        try:
            gate = await self._registry.gate(gate_id)
        except NotFound as error:
            raise FailedPrecondition(f"a release needs a passed gate: {error.message}") from error
        if (gate.candidate, gate.champion) != (release.candidate, release.baseline):
            raise FailedPrecondition(
                f"gate {gate_id} compared {gate.candidate} with {gate.champion}, "
                f"not {release.candidate} with the champion {release.baseline}"
            )
        if not gate.passed:
            raise FailedPrecondition(f"gate {gate_id} was not passed: {gate.reason}")

    async def _saved(self, before: Release, after: Release) -> ReleaseView:
        return await self._view(after if after is before else await self._releases.save(after))

    async def _view(self, release: Release) -> ReleaseView:
        try:
            return await self._judged(release)
        except RatchetError:
            raise
        except Exception:
            log.exception("release.not_judged", release_id=release.id)
            reason = "Cannot be judged: an internal error of the gateway; its log has the trace."
            return ReleaseView(release, NO_TRAFFIC, NO_TRAFFIC, reason if release.active else "")

    async def _judged(self, release: Release) -> ReleaseView:
        traffic = await self._traffic.read(release)
        findings = look(release, traffic) if release.state in (State.PROGRESSING, State.WATCHING) else ()
        waits_for = self._waits_for(release, traffic)
        return ReleaseView(release, traffic.baseline, traffic.candidate, waits_for, findings)

    def _waits_for(self, release: Release, traffic: Traffic) -> str:
        match release.state:
            case State.PREPARING:
                return f"{release.candidate} is being loaded."
            case State.PROGRESSING | State.WATCHING:
                return decide(release, traffic, self._clock.now()).reason
            case State.PAUSED:
                return "Paused: all traffic is with the baseline until somebody resumes it."
            case State.PROMOTING:
                return f"{release.candidate} is about to become the champion: waits for the registry."
            case State.FALLING_BACK:
                return f"{release.baseline} is about to be the champion again: waits for the registry."
            case _:
                return ""
