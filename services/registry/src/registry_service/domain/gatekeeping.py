"""Gates: made once from evidence, then only read."""

from dataclasses import asdict
from functools import partial

from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from registry_service.domain.gates import Gate, GateSpec, check_evidence, decide
from registry_service.domain.ports import EvaluationSource, ModelStore

log = get_logger(__name__)


class Gates:
    def __init__(self, store: ModelStore, evaluations: EvaluationSource, clock: Clock) -> None:
        self._store = store
        self._evaluations = evaluations
        self._clock = clock

    async def create(self, spec: GateSpec, request_id: str) -> Gate:
        """Compares the candidate with the present champion and stores the decision, passed or not.

        Raises NotFound for a missing model, version or evaluation; FailedPrecondition when there is no champion to
        compare with, when an evaluation has not succeeded or measured other weights, or when the problems differ.
        """
        request = Request.of(request_id, asdict(spec))
        if existing := await self._store.gate_of_request(request):
            return existing
        model = await self._store.get_model(spec.model)
        candidate = await self._store.get_version(spec.model, spec.candidate_version)
        if model.champion is None:
            raise FailedPrecondition(f"model {model.name} has no champion to compare with; the first one needs no gate")
        if model.champion == spec.candidate_version:
            raise InvalidArgument(f"{candidate.name} is the champion itself")
        champion = await self._store.get_version(spec.model, model.champion)
        measured = await self._evaluations.get(spec.candidate_evaluation)
        baseline = await self._evaluations.get(spec.champion_evaluation)
        check_evidence(candidate, measured, champion, baseline)
        comparison = await self._evaluations.compare(spec.champion_evaluation, spec.candidate_evaluation)
        gate = decide(new_id("gate"), spec, candidate, champion, comparison, self._clock.now())
        stored = await self._store.add_gate(gate, request)
        log.info("gate.decided", gate=stored.id, passed=stored.passed, reason=stored.reason)
        return stored

    async def get(self, id: str) -> Gate:
        return await self._store.get_gate(id)

    async def list(self, model: str, page_size: int, page_token: str) -> Page[Gate]:
        """Newest first."""
        fetch = partial(self._store.list_gates, model)
        return await fetch_page(fetch, lambda gate: gate.id, str, page_size, page_token)
