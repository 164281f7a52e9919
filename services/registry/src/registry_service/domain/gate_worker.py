"""The work on gates: the evidence is fetched, looked at, and decided on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from ratchet_kit.errors import Aborted, NotFound, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_kit.retry import TRANSIENT
from ratchet_kit.times import Clock
from ratchet_kit.work import Waiting
from ratchet_kit.worker import HeldWork
from registry_service.domain.evidence import (
    Evidence,
    Known,
    MeasuredSet,
    Origin,
    Pair,
    check_apart,
    check_judgeable,
    check_measured,
    check_unknown,
)
from registry_service.domain.finding import Finding, acceptances
from registry_service.domain.gate import Gate
from registry_service.domain.ports import EvaluationSource, SketchStore, Stores
from registry_service.domain.reigns import Reigns
from registry_service.domain.tries import count_tries, share_of
from registry_service.domain.version import Lineage, Version

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Near:
    """Problems of a set that are nearly those of others."""

    pairs: Sequence[Pair]
    accepted: Sequence[Finding]
    """Accepted findings of either side; they are in no pair."""


class GateWorker(HeldWork[Gate]):
    """Decides one gate after another."""

    kind = "gate"

    def __init__(
        self,
        stores: Stores,
        evaluations: EvaluationSource,
        sketches: SketchStore,
        owner: str,
        clock: Clock,
        lease: timedelta,
    ) -> None:
        super().__init__(stores.gates.change, owner, clock, lease)
        self._stores = stores
        self._evaluations = evaluations
        self._sketches = sketches

    async def do(self, claim: Gate) -> None:
        try:
            evidence = await self._evidence(claim)
        except Aborted:
            raise
        except TRANSIENT as error:
            raise Unavailable(error.message) from error
        except RatchetError as error:  # the evidence cannot judge, and that is final
            await self.fail(claim, error)
            log.warning("gate.failed", reason=error.message)
            return
        decided = await self._stores.gates.change(
            claim.id, lambda gate: gate.decide(self.owner, evidence, self.clock.now())
        )
        log.info("gate.decided", state=decided.state, reason=decided.reason)

    async def _evidence(self, gate: Gate) -> Evidence:
        spec = gate.spec
        candidate, champion = [await self._stores.versions.get(ref) for ref in (spec.candidate, gate.champion)]
        measured = await self._evaluations.get(spec.candidate_evaluation_id)
        baseline = await self._evaluations.get(spec.champion_evaluation_id)
        check_measured(candidate, measured, champion, baseline)
        judged = spec.rules.judged(measured)
        origin = await self._origin(candidate)
        check_unknown(candidate.ref, judged, origin)
        accepted: list[Finding] = []
        for one in judged:
            trained, selected = [await self._near(known, one) for known in (origin.training, origin.selection)]
            check_apart(candidate.ref, one, trained.pairs, selected.pairs)
            accepted += (*trained.accepted, *selected.accepted)
        reigns = await self._reigns(champion.ref.model)
        tries = count_tries(
            champion.ref.model,
            measured.id,
            baseline.id,
            champion.policy_id,
            partial(reigns.counted_since, champion.ref.number),
            await self._evaluations.looks(measured.id),
        )
        confidence = tries.confidence(share_of(len(measured.sets), target=bool(spec.rules.target)))
        comparisons = await self._evaluations.compare(baseline.id, measured.id, confidence, origin)
        check_judgeable(candidate.ref, comparisons, judged)
        return Evidence(comparisons, tries.now, origin.caveat + acceptances(accepted))

    async def _reigns(self, model: str) -> Reigns:
        history = await self._stores.models.history(model, CHAMPION, None, None)
        changes = [entry.change for entry in reversed(history)]
        versions = [await self._stores.versions.get(VersionRef(model, one)) for one in {it.to_number for it in changes}]
        gates = [await self._stores.gates.get(id) for id in {change.gate_id for change in changes} - {""}]
        conceded = {gate.id for gate in gates if gate.spec.min_difference < 0}
        return Reigns(changes, {version.ref.number: version.policy_id for version in versions}, conceded)

    async def _origin(self, candidate: Version) -> Origin:
        """Of the candidate, of what it was trained from, and so on, as far back as the registry knows."""
        chain: dict[VersionRef, Lineage] = {}
        version: Version | None = candidate
        while version is not None and version.ref not in chain:
            chain[version.ref] = lineage = version.spec.lineage
            version = await self._find(lineage.base) if isinstance(lineage.base, VersionRef) else None
        trained = await self._known(digest for lineage in chain.values() for digest in lineage.data_digests)
        selected = await self._known(lineage.selection_digest or "" for lineage in chain.values())
        unknown = [ref for ref, lineage in chain.items() if lineage.run_id and lineage.selection_digest is None]
        return Origin(trained, selected, tuple(unknown))

    async def _known(self, digests: Iterable[str]) -> Known:
        found = frozenset(digests) - {""}
        return Known(found, await self._stores.versions.fingerprints(found))

    async def _near(self, known: Known, judged: MeasuredSet) -> Near:
        pairs: dict[str, Pair] = {}
        accepted: list[Finding] = []
        of_judged = await self._stores.findings.accepted(judged.digest)
        for digest in sorted(known.digests):
            of_learned = await self._stores.findings.accepted(digest)
            learned = [it for it in of_learned if it.is_against(judged.name, judged.digest)]
            measured = [it for it in of_judged if it.other_digest == digest]
            ids = [{it.problem for it in side} for side in (learned, measured)]
            for pair in await self._sketches.pairs(digest, judged.digest, *ids):
                pairs.setdefault(pair.problem, pair)
            accepted += (*learned, *measured)
        return Near(list(pairs.values()), accepted)

    async def _find(self, ref: VersionRef) -> Version | None:
        try:
            return await self._stores.versions.get(ref)
        except NotFound:  # it was deleted since
            return None

    async def waiting(self) -> Sequence[Waiting]:
        return [Waiting(gate.id, gate.create_time) for gate in await self._stores.gates.waiting(self.clock.now())]
