"""What every ModelStore promises: in memory, on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ratchet_kit import sql
from ratchet_kit.errors import Aborted, AlreadyExists, NotFound
from ratchet_kit.idempotency import Request
from registry_service.adapters.memory import MemoryModelStore
from registry_service.adapters.sql import SqlModelStore
from registry_service.domain.gates import Estimate, Gate
from registry_service.domain.models import AliasChange, Artifact, Lineage, Model, Version, VersionDraft
from registry_service.domain.ports import ModelStore

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
ARTIFACT = Artifact("/artifacts/models/starter/art_1", "ab" * 32, "sha256:" + "cd" * 32, 3_000_000_000)
LINEAGE = Lineage(base="starter@1", run_id="run_1", data_digest="sha256:d", config_digest="c", code_version="v", step=9)


@pytest.fixture(
    params=[
        "memory",
        pytest.param("sqlite", marks=pytest.mark.integration),
        pytest.param("postgresql", marks=pytest.mark.integration),
    ]
)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[ModelStore]:
    if request.param == "memory":
        yield MemoryModelStore()
        return
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    await sql.migrate(url, "registry_service")
    engine = sql.create_engine(url)
    yield SqlModelStore(engine)
    await engine.dispose()


def request(id: str = "req_1", fingerprint: str = "f") -> Request:
    return Request(id, fingerprint)


async def add_version(store: ModelStore, id: str = "req_1", model: str = "starter") -> Version:
    await store.begin_upload(f"up_{id}", NOW)
    draft = VersionDraft(model, ARTIFACT, LINEAGE, {"kind": "sft"}, NOW)
    return await store.add_version(draft, f"up_{id}", request(id))


def change(before: int, after: int, alias: str = "champion") -> AliasChange:
    return AliasChange("starter", alias, before, after, "why", "", NOW)


def gate(id: str) -> Gate:
    return Gate(
        id=id,
        model="starter",
        candidate_version=2,
        champion_version=1,
        candidate_evaluation="eval_2",
        champion_evaluation="eval_1",
        difference=Estimate(0.2, 0.125, 0.25),
        p_value=0.0002,
        passed=True,
        reason="Passed: it is better.",
        min_difference=0.0,
        create_time=NOW,
    )


async def test_a_model_is_created_once(store: ModelStore) -> None:
    created = await store.create_model(Model("starter", "the first", NOW))
    assert await store.get_model("starter") == created == Model("starter", "the first", NOW, {}, 0)
    with pytest.raises(AlreadyExists, match="starter"):
        await store.create_model(Model("starter", "another", NOW))
    with pytest.raises(NotFound, match="nobody"):
        await store.get_model("nobody")


async def test_models_are_listed_by_name_with_their_aliases(store: ModelStore) -> None:
    for name in ("b", "c", "a"):
        await store.create_model(Model(name, "", NOW))
    await add_version(store, model="b")
    await store.move_alias(replace(change(0, 1), model="b"))
    assert [model.name for model in await store.list_models(2, None)] == ["a", "b"]
    assert [model.name for model in await store.list_models(2, "b")] == ["c"]
    assert (await store.list_models(1, "a"))[0].aliases == {"champion": 1}


async def test_versions_are_numbered_from_one_and_make_their_model(store: ModelStore) -> None:
    first, second = await add_version(store, "req_1"), await add_version(store, "req_2")
    assert first == Version("starter", 1, ARTIFACT, LINEAGE, {"kind": "sft"}, NOW)
    assert await store.get_version("starter", 2) == second
    assert (await store.get_model("starter")).latest_version == 2
    with pytest.raises(NotFound, match="no version 3"):
        await store.get_version("starter", 3)
    with pytest.raises(NotFound, match="no model"):
        await store.get_version("nobody", 1)


async def test_versions_are_listed_newest_first(store: ModelStore) -> None:
    for id in ("a", "b", "c"):
        await add_version(store, id)
    assert [version.number for version in await store.list_versions("starter", 2, None)] == [3, 2]
    assert [version.number for version in await store.list_versions("starter", 2, 2)] == [1]
    with pytest.raises(NotFound):
        await store.list_versions("nobody", 2, None)


async def test_a_request_makes_one_version(store: ModelStore) -> None:
    version = await add_version(store)
    assert await store.version_of_request(request()) == version
    assert await store.version_of_request(request("req_2")) is None
    with pytest.raises(AlreadyExists, match="used before"):
        await store.version_of_request(request(fingerprint="another"))
    await store.begin_upload("again", NOW)
    with pytest.raises(AlreadyExists):
        await store.add_version(VersionDraft("starter", ARTIFACT, LINEAGE, {}, NOW), "again", request())
    assert (await store.get_model("starter")).latest_version == 1
    assert await store.abandon_upload("again"), "the loser's files can still be found"


async def test_versions_made_at_once_get_different_numbers(store: ModelStore) -> None:
    made = await asyncio.gather(*(add_version(store, f"req_{i}") for i in range(8)))
    assert sorted(version.number for version in made) == list(range(1, 9))


async def test_an_abandoned_upload_never_becomes_a_version(store: ModelStore) -> None:
    await store.begin_upload("slow", NOW)
    assert await store.uploads_before(NOW) == []
    assert await store.uploads_before(NOW + timedelta(seconds=1)) == ["slow"]
    assert await store.abandon_upload("slow")
    with pytest.raises(Aborted):
        await store.add_version(VersionDraft("starter", ARTIFACT, LINEAGE, {}, NOW), "slow", request())
    await store.end_upload("slow")
    assert await store.uploads_before(NOW + timedelta(seconds=1)) == []


async def test_the_upload_of_a_version_cannot_be_abandoned(store: ModelStore) -> None:
    await add_version(store)
    assert not await store.abandon_upload("up_req_1")
    assert await store.uploads_before(NOW + timedelta(days=1)) == []


async def test_an_alias_moves_only_from_where_it_is(store: ModelStore) -> None:
    await add_version(store, "a")
    await add_version(store, "b")
    assert (await store.move_alias(change(0, 1))).aliases == {"champion": 1}
    for stale in (change(0, 2), change(2, 1)):
        with pytest.raises(Aborted, match="champion"):
            await store.move_alias(stale)
    assert (await store.move_alias(change(1, 2))).aliases == {"champion": 2}
    assert await store.past_versions("starter", "champion") == {1, 2}
    assert await store.past_versions("starter", "candidate") == frozenset()


async def test_two_who_move_an_alias_at_once_do_not_both_win(store: ModelStore) -> None:
    for id in ("a", "b", "c"):
        await add_version(store, id)
    await store.move_alias(change(0, 1))
    results = await asyncio.gather(
        store.move_alias(change(1, 2)), store.move_alias(change(1, 3)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["Aborted", "Model"]
    assert len(await store.list_alias_history("starter", "champion", 10, None)) == 2


async def test_history_is_kept_newest_first(store: ModelStore) -> None:
    await add_version(store)
    moves = [change(0, 1), replace(change(0, 1, "candidate"), time=NOW + timedelta(hours=1))]
    for move in moves:
        await store.move_alias(move)
    entries = await store.list_alias_history("starter", None, 10, None)
    assert [entry.change for entry in entries] == moves[::-1]
    assert [e.change for e in await store.list_alias_history("starter", None, 10, entries[0].position)] == moves[:1]
    assert [e.change.alias for e in await store.list_alias_history("starter", "candidate", 10, None)] == ["candidate"]
    with pytest.raises(NotFound):
        await store.list_alias_history("nobody", None, 10, None)


async def test_a_gate_is_stored_once_under_its_request(store: ModelStore) -> None:
    await store.create_model(Model("starter", "", NOW))
    first = await store.add_gate(gate("gate_1"), request())
    assert await store.add_gate(gate("gate_2"), request()) == first == gate("gate_1")
    assert await store.gate_of_request(request()) == first == await store.get_gate("gate_1")
    with pytest.raises(AlreadyExists, match="used before"):
        await store.gate_of_request(request(fingerprint="another"))
    with pytest.raises(NotFound, match="gate_2"):
        await store.get_gate("gate_2")


async def test_gates_are_listed_newest_first(store: ModelStore) -> None:
    await store.create_model(Model("starter", "", NOW))
    for id in ("gate_1", "gate_2", "gate_3"):
        await store.add_gate(gate(id), request(id))
    assert [gate.id for gate in await store.list_gates("starter", 2, None)] == ["gate_3", "gate_2"]
    assert [gate.id for gate in await store.list_gates("starter", 2, "gate_2")] == ["gate_1"]
    with pytest.raises(NotFound):
        await store.list_gates("nobody", 2, None)
