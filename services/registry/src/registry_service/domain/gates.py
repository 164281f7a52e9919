"""Gates: create, find, list, watch. And the work on them: the evidence is fetched and decided on."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial

from ratchet_kit import work
from ratchet_kit.errors import Aborted, FailedPrecondition, InvalidArgument, RatchetError, Unavailable
from ratchet_kit.idempotency import Request, once
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.retry import TRANSIENT
from ratchet_kit.statistics import Comparison
from ratchet_kit.times import Clock
from ratchet_kit.worker import HeldWork
from registry_service.domain.gate import Gate, GateSpec, check_evidence
from registry_service.domain.ports import EvaluationSource, GateStore, ModelStore, Stores, VersionStore

log = get_logger(__name__)


class Gates:
    def __init__(self, stores: Stores, queue: work.Queue, clock: Clock) -> None:
        self._models: ModelStore = stores.models
        self._versions: VersionStore = stores.versions
        self._store: GateStore = stores.gates
        self._queue = queue
        self._clock = clock

    async def create(self, spec: GateSpec, request_id: str) -> Gate:
        """Stores a gate against the present champion and leaves the decision to a worker.

        Raises InvalidArgument, AlreadyExists when the request id was used for another gate, NotFound for a missing
        model or version, FailedPrecondition when there is no champion or the candidate is not READY.
        """
        spec.check()
        request = Request.of(request_id, asdict(spec))

        async def create() -> Gate:
            champion = await self._champion(spec.candidate)
            gate = await self._store.create(Gate(new_id("gate"), spec, champion, self._clock.now()), request)
            await work.enqueue(self._queue, gate.id)
            log.info("gate.created", gate=gate.id, candidate=str(spec.candidate), champion=str(champion))
            return gate

        return await once(partial(self._store.find, request), create)

    async def _champion(self, candidate: VersionRef) -> VersionRef:
        """What the candidate is compared with."""
        model = await self._models.get(candidate.model)
        (await self._versions.get(candidate)).check_ready()
        if model.champion is None:
            raise FailedPrecondition(f"model {model.name} has no champion to compare with; the first one needs no gate")
        if model.champion == candidate.number:
            raise InvalidArgument(f"{candidate} is the champion itself")
        return VersionRef(model.name, model.champion)

    async def get(self, id: str) -> Gate:
        """Raises NotFound."""
        return await self._store.get(id)

    async def page(self, model: str, page_size: int, page_token: str) -> Page[Gate]:
        """Newest first. Raises NotFound when there is no such model."""
        fetch = partial(self._store.page, model)
        return await fetch_page(fetch, lambda gate: gate.id, str, page_size, page_token)

    def watch(self, id: str) -> AsyncIterator[Gate]:
        """The gate as it is, then as it was decided. Raises NotFound."""
        return work.watch(partial(self._store.get, id), lambda gate: gate.state.is_final, key=lambda gate: gate.state)


class Decisions(HeldWork[Gate]):
    """Decides one gate after another."""

    kind = "gate"

    def __init__(
        self, stores: Stores, evaluations: EvaluationSource, owner: str, clock: Clock, lease: timedelta
    ) -> None:
        super().__init__(stores.gates.change, owner, clock, lease)
        self._stores = stores
        self._evaluations = evaluations

    async def do(self, claim: Gate) -> None:
        try:
            comparison = await self._compare(claim)
        except Aborted:
            raise
        except TRANSIENT as error:
            raise Unavailable(error.message) from error
        except RatchetError as error:  # the evidence does not fit, and that is final
            await self.fail(claim, error)
            log.warning("gate.failed", reason=error.message)
            return
        decided = await self._stores.gates.change(
            claim.id, lambda gate: gate.decide(self.owner, comparison, self.clock.now())
        )
        log.info("gate.decided", state=decided.state, reason=decided.reason)

    async def _compare(self, gate: Gate) -> Comparison:
        spec = gate.spec
        candidate, champion = [await self._stores.versions.get(ref) for ref in (spec.candidate, gate.champion)]
        measured = await self._evaluations.get(spec.candidate_evaluation_id)
        baseline = await self._evaluations.get(spec.champion_evaluation_id)
        check_evidence(candidate, measured, champion, baseline)
        return await self._evaluations.compare(spec.champion_evaluation_id, spec.candidate_evaluation_id)

    async def waiting(self) -> Sequence[work.Waiting]:
        waiting = await self._stores.gates.waiting(self.clock.now())
        return [work.Waiting(gate.id, gate.create_time) for gate in waiting]
