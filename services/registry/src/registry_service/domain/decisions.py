"""The work on gates: the evidence is fetched, looked at, and decided on."""

from collections.abc import Sequence
from datetime import timedelta

from ratchet_kit.errors import Aborted, NotFound, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.retry import TRANSIENT
from ratchet_kit.times import Clock
from ratchet_kit.work import Waiting
from ratchet_kit.worker import HeldWork
from registry_service.domain.evidence import (
    Comparisons,
    TrainingData,
    check_judgeable,
    check_measured,
    check_untrained,
    confidence_of,
)
from registry_service.domain.gate import Gate
from registry_service.domain.ports import EvaluationSource, Stores
from registry_service.domain.version import Version

log = get_logger(__name__)


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
            comparisons = await self._compare(claim)
        except Aborted:
            raise
        except TRANSIENT as error:
            raise Unavailable(error.message) from error
        except RatchetError as error:  # the evidence cannot judge, and that is final
            await self.fail(claim, error)
            log.warning("gate.failed", reason=error.message)
            return
        decided = await self._stores.gates.change(
            claim.id, lambda gate: gate.decide(self.owner, comparisons, self.clock.now())
        )
        log.info("gate.decided", state=decided.state, reason=decided.reason)

    async def _compare(self, gate: Gate) -> Comparisons:
        spec = gate.spec
        candidate, champion = [await self._stores.versions.get(ref) for ref in (spec.candidate, gate.champion)]
        measured = await self._evaluations.get(spec.candidate_evaluation_id)
        baseline = await self._evaluations.get(spec.champion_evaluation_id)
        check_measured(candidate, measured, champion, baseline)
        judged = spec.rules.judged(measured)
        training = await self._training(candidate)
        check_untrained(candidate.ref, judged, training)
        digests = [one.digest for one in spec.rules.gained_on(measured)]
        gate = await self._stores.gates.note_try(gate.id, self.owner, digests)
        comparisons = await self._evaluations.compare(
            baseline.id, measured.id, confidence_of(gate.tries), training.fingerprints
        )
        check_judgeable(candidate.ref, comparisons, judged)
        return comparisons

    async def _training(self, candidate: Version) -> TrainingData:
        """Of the candidate, of what it was trained from, and so on, as far back as the registry knows."""
        digests: set[str] = set()
        seen: set[VersionRef] = set()
        version: Version | None = candidate
        while version is not None and version.ref not in seen:
            seen.add(version.ref)
            lineage = version.spec.lineage
            digests |= {lineage.data_digest} - {""}
            version = await self._find(lineage.base) if isinstance(lineage.base, VersionRef) else None
        return TrainingData(frozenset(digests), await self._stores.versions.training_fingerprints(digests))

    async def _find(self, ref: VersionRef) -> Version | None:
        try:
            return await self._stores.versions.get(ref)
        except NotFound:  # it was deleted since
            return None

    async def waiting(self) -> Sequence[Waiting]:
        return [Waiting(gate.id, gate.create_time) for gate in await self._stores.gates.waiting(self.clock.now())]
