"""Gates: create, find, list, watch. `gate_worker.py` decides them."""

from collections.abc import AsyncIterator
from functools import partial

from ratchet_kit import work
from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from ratchet_kit.idempotency import Request, once
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from registry_service.domain.gate import Gate, GateSpec, State
from registry_service.domain.ports import GateStore, ModelStore, Stores, VersionStore
from registry_service.domain.promotion import find_staleness

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
        request = Request.of(request_id, spec)

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

    async def find_staleness(self, gate: Gate) -> str:
        """Why a gate that passed opens no way any more; empty where it does."""
        if gate.state is not State.PASSED:
            return ""
        history = await self._models.history(gate.champion.model, CHAMPION, None, None)
        return find_staleness(gate, [entry.change for entry in history])

    async def page(self, model: str, page_size: int, page_token: str) -> Page[Gate]:
        """Newest first. Raises NotFound when there is no such model."""
        fetch = partial(self._store.page, model)
        return await fetch_page(fetch, lambda gate: gate.id, str, page_size, page_token)

    def watch(self, id: str) -> AsyncIterator[Gate]:
        """The gate as it is, then as it was decided. Raises NotFound."""
        return work.watch(partial(self._store.get, id), lambda gate: gate.state.is_final, key=lambda gate: gate.state)
