"""What every FindingStore promises."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import Aborted
from ratchet_kit.names import DatasetRef
from ratchet_kit.sql import Database
from registry_service.adapters.sql.datasets import SqlDatasetStore
from registry_service.adapters.sql.findings import SqlFindingStore
from registry_service.domain.dataset import Card, Content, DatasetSpec, Upload
from registry_service.domain.finding import Decision, Finding, FindingState, Kind, Rule

from ..conftest import NOW
from .values import request

DIGEST, PUBLIC = f"sha256:{'d' * 64}", "e" * 64
ALL = Rule()


@dataclass(frozen=True, slots=True)
class Stores:
    datasets: SqlDatasetStore
    findings: SqlFindingStore

    async def examining(self, letter: str = "a") -> DatasetRef:
        spec = DatasetSpec("mine", Card(), {"train": Upload(3, letter * 64)})
        ref = (await self.datasets.create(spec, "", NOW, request(letter))).ref
        await self.datasets.change(ref, lambda it: it.written("train", 0, 3).claim("w", NOW, timedelta(seconds=30)))
        return ref

    async def ready(self, ref: DatasetRef) -> None:
        content = Content(3, "f" * 64, 1, DIGEST)
        await self.datasets.change(ref, lambda it: it.complete("w", {"train": content}, NOW))

    async def keep(self, ref: DatasetRef, *findings: Finding, made_of: DatasetRef | None = None) -> None:
        await self.findings.replace(ref, {"train": DIGEST}, findings, made_of)


@pytest.fixture
def stores(database: Database) -> Stores:
    return Stores(SqlDatasetStore(database), SqlFindingStore(database))


def near(problem: str, other_set: str = "mbpp", detail: str = "prompt 0.90") -> Finding:
    return Finding(Kind.NEAR_DUPLICATE, "train", problem, other_set, "Mbpp/1", detail, PUBLIC)


def decision(ref: DatasetRef, rule: Rule, state: FindingState = FindingState.ACCEPTED, id: str = "dec_1") -> Decision:
    return Decision(id, ref, rule, state, "another task", "key_1", NOW)


EMAIL = Finding(Kind.EMAIL, "train", "p1", detail="prompt")


async def test_findings_keep_their_order_and_are_selected(stores: Stores) -> None:
    ref = await stores.examining()
    kept = [EMAIL, near("p1"), near("p2"), near("p2", "train")]
    await stores.keep(ref, near("old"))
    await stores.keep(ref, *kept)
    placed = [replace(one, place=place) for place, one in enumerate(kept, 1)]
    page = stores.findings.page
    assert await page(ref, ALL, None, 10, None) == placed
    assert await page(ref, ALL, None, 2, 1) == placed[1:3]
    assert await page(ref, Rule(Kind.NEAR_DUPLICATE, "train", "p2", "mbpp"), FindingState.OPEN, 10, None) == placed[2:3]
    assert await page(ref, ALL, FindingState.ACCEPTED, 10, None) == []
    assert await page(DatasetRef("mine", 9), ALL, None, 10, None) == []


async def test_many_are_kept_at_once(stores: Stores) -> None:
    ref = await stores.examining()
    await stores.keep(ref, *(near(str(number)) for number in range(12_001)))
    (last,) = await stores.findings.page(ref, ALL, None, 10, 12_000)
    assert (last.problem, last.place) == ("12000", 12_001)


async def test_the_last_decision_counts_and_none_is_kept_about_nothing(stores: Stores) -> None:
    ref = await stores.examining()
    await stores.keep(ref, EMAIL, near("p1"), near("p2"))
    of_mbpp = decision(ref, Rule(Kind.NEAR_DUPLICATE, other_set="mbpp"))
    assert await stores.findings.decide(of_mbpp) == 2
    refused = decision(ref, Rule(problem="p1"), FindingState.REFUSED, "dec_2")
    assert await stores.findings.decide(refused) == 2
    assert await stores.findings.decide(decision(ref, Rule(Kind.SECRET), id="dec_3")) == 0
    first, second, third = await stores.findings.page(ref, ALL, None, 10, None)
    assert (first.decision, second.decision, third.decision) == (refused, refused, of_mbpp)
    assert await stores.findings.accepted(DIGEST) == [third]
    assert await stores.findings.accepted(PUBLIC) == []
    await stores.findings.decide(decision(ref, Rule(problem="p2"), FindingState.OPEN, "dec_4"))
    assert await stores.findings.accepted(DIGEST) == []
    assert [it.problem for it in await stores.findings.page(ref, ALL, FindingState.OPEN, 10, None)] == ["p2"]


async def test_a_version_takes_over_the_decisions_about_the_same_findings(stores: Stores) -> None:
    first = await stores.examining()
    await stores.keep(first, near("same"), near("changed"), near("open"))
    for number, problem in enumerate(("same", "changed")):
        await stores.findings.decide(decision(first, Rule(problem=problem), id=f"dec_{number}"))
    await stores.ready(first)
    second = await stores.examining("b")
    await stores.keep(second, near("same"), near("changed", detail="prompt 0.99"), near("open"), made_of=first)
    found = await stores.findings.page(second, ALL, None, 10, None)
    assert [it.state for it in found] == [FindingState.ACCEPTED, FindingState.OPEN, FindingState.OPEN]
    assert found[0].decision == decision(first, Rule(problem="same"), id="dec_0")


async def test_a_report_takes_the_place_of_the_one_before_but_for_what_was_decided(stores: Stores) -> None:
    ref = await stores.examining()
    await stores.keep(ref, EMAIL)
    split, wrong = replace(ref, split="train"), Finding(Kind.UNSOUND, "train", "p", detail="it fails")
    await stores.findings.report(split, DIGEST, [replace(wrong, problem=id) for id in ("p1", "p2")])
    await stores.findings.decide(decision(ref, Rule(Kind.UNSOUND, problem="p2"), FindingState.REFUSED))
    await stores.findings.report(split, DIGEST, [replace(wrong, problem=id, detail="again") for id in ("p2", "p3")])
    found = await stores.findings.page(ref, ALL, None, 10, None)
    assert [(it.problem, it.kind, it.detail) for it in found] == [
        ("p1", Kind.EMAIL, "prompt"),
        ("p2", Kind.UNSOUND, "it fails"),
        ("p3", Kind.UNSOUND, "again"),
    ]
    await stores.findings.report(split, DIGEST, [])
    assert [it.problem for it in await stores.findings.page(ref, ALL, None, 10, None)] == ["p1", "p2"]


async def test_what_was_decided_stays_once_the_version_is_ready_or_gone(stores: Stores) -> None:
    ref = await stores.examining()
    await stores.keep(ref, near("p1"), near("p2"))
    await stores.findings.decide(decision(ref, Rule(problem="p1")))
    await stores.ready(ref)
    with pytest.raises(Aborted, match="mine@1 is not examined any more"):
        await stores.keep(ref, near("p1"))
    await stores.datasets.delete(ref, force=False)
    assert [it.problem for it in await stores.findings.page(ref, ALL, None, 10, None)] == ["p1"]
    assert [it.problem for it in await stores.findings.accepted(DIGEST)] == ["p1"]
