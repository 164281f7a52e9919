"""Findings of examinations: list, decide."""

from collections.abc import Mapping
from functools import partial

from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.faults import Faults
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.names import DatasetRef
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from registry_service.domain.dataset import State
from registry_service.domain.finding import MAX_REPORTED, MAX_SELECTED, Decision, Finding, FindingState, Kind, Rule
from registry_service.domain.ports import DatasetFiles, DatasetStore, FindingStore
from registry_service.domain.reference_runs import ReferenceRuns

log = get_logger(__name__)


class Findings:
    def __init__(self, datasets: DatasetStore, store: FindingStore, files: DatasetFiles, clock: Clock) -> None:
        self._datasets = datasets
        self._files = files
        self._store = store
        self._clock = clock

    async def page(
        self, ref: DatasetRef, rule: Rule, state: FindingState | None, page_size: int, page_token: str
    ) -> Page[Finding]:
        """In their order. Raises NotFound, InvalidArgument."""
        faults = Faults()
        rule.check(faults)
        faults.raise_if_any()
        dataset = await self._datasets.get(ref)
        fetch = partial(self._store.page, dataset.ref, rule, state)
        return await fetch_page(fetch, lambda finding: finding.place, int, page_size, page_token)

    async def report(self, ref: DatasetRef, reasons: Mapping[str, str], runs: ReferenceRuns | None) -> None:
        """Records the unsound problems of the split, by their ids, and how its references ran. Raises NotFound,
        InvalidArgument, also for ids that the split does not have, FailedPrecondition unless the version is READY."""
        faults = Faults()
        faults.length("reasons", reasons, MAX_REPORTED)
        for id, reason in list(reasons.items())[:MAX_REPORTED]:
            if faults.required(f"reasons.{id[:40]}", reason.strip()):
                faults.length(f"reasons.{id[:40]}", reason, MAX_SELECTED)
        dataset = await self._datasets.get(ref)
        content = dataset.content(ref.split)
        if runs is not None:
            runs.check(faults, content.rows)
        faults.raise_if_any()
        for id in await self._files.unknown(content.kept[0].sha256, reasons):
            faults.add(f"reasons.{id[:40]}", f"is not the id of a problem of {dataset.ref}/{ref.split}")
        faults.raise_if_any()
        findings = [Finding(Kind.UNSOUND, ref.split, id, detail=reason) for id, reason in reasons.items()]
        await self._store.report(ref, content.digest, findings)
        if runs is not None:
            await self._datasets.change(dataset.ref, lambda it: it.with_references(ref.split, runs))
        log.info("dataset.unsound_reported", dataset=str(ref), problems=len(findings))

    async def decide(self, ref: DatasetRef, rule: Rule, state: FindingState, reason: str, actor: str) -> int:
        """Decides the findings that the rule selects; how many they are. Raises NotFound, also where it selects none,
        FailedPrecondition unless the version is READY, InvalidArgument."""
        decision = Decision(new_id("dec"), ref, rule, state, reason, actor, self._clock.now())
        decision.check()
        dataset = await self._datasets.get(ref)
        if dataset.state is not State.READY:
            raise FailedPrecondition(f"{dataset.label} is {dataset.state}: its findings are decided once it is ready")
        number = await self._store.decide(decision)
        if not number:
            raise NotFound(f"{dataset.label} has no such finding")
        log.info("dataset.findings_decided", dataset=dataset.id, state=state, findings=number, by=actor)
        return number
