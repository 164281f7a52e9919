"""What every ModelStore promises."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import Aborted, AlreadyExists, FailedPrecondition, NotFound
from registry_service.domain.model import AliasChange, Model
from registry_service.domain.ports import Stores

from ..conftest import NOW, starter
from .values import add_ready, add_version, gate, request


def change(before: int, after: int, alias: str = "champion") -> AliasChange:
    return AliasChange("starter", alias, before, after, "why", "", NOW, "key_1")


async def test_a_model_is_created_once(stores: Stores) -> None:
    model = Model("starter", "the first", NOW)
    assert await stores.models.create(model, request()) == model == await stores.models.get("starter")
    assert await stores.models.create(replace(model, create_time=NOW + timedelta(hours=1)), request()) == model
    assert await stores.models.find(request()) == model
    assert await stores.models.find(request("req_2")) is None
    with pytest.raises(AlreadyExists, match="model starter exists"):
        await stores.models.create(Model("starter", "another", NOW), request("req_2"))
    with pytest.raises(AlreadyExists, match="used before, for another model"):
        await stores.models.find(request(fingerprint="another"))
    with pytest.raises(NotFound, match="nobody"):
        await stores.models.get("nobody")


async def test_the_model_of_a_first_version_was_made_by_no_request(stores: Stores) -> None:
    await add_version(stores)
    await add_version(stores, "req_2", model="other")
    with pytest.raises(AlreadyExists, match="model starter exists"):
        await stores.models.create(Model("starter", "", NOW), request("req_3"))


async def test_models_are_listed_by_name_with_their_aliases(stores: Stores) -> None:
    for name in ("b", "c", "a"):
        await stores.models.create(Model(name, "", NOW), request(name))
    await add_ready(stores, model="b")
    await stores.models.move_alias(replace(change(0, 1), model="b"))
    assert [model.name for model in await stores.models.page(2, None)] == ["a", "b"]
    assert [model.name for model in await stores.models.page(2, "b")] == ["c"]
    assert (await stores.models.page(1, "a"))[0].aliases == {"champion": 1}


async def test_only_a_model_that_never_had_a_version_is_deleted(stores: Stores) -> None:
    await add_ready(stores)
    await add_ready(stores, "req_2")
    await stores.models.move_alias(change(0, 1, "mine"))
    await stores.models.move_alias(change(1, 2, "mine"))
    await stores.gates.create(gate("gate_1"), request())
    await stores.gates.change("gate_1", lambda gate: replace(gate, state=type(gate.state).REFUSED))
    with pytest.raises(FailedPrecondition, match="given again"):
        await stores.models.delete("starter")
    with pytest.raises(NotFound, match="nobody"):
        await stores.models.delete("nobody")
    await stores.models.create(Model("empty", "", NOW), request("req_9"))
    await stores.models.delete("empty")
    with pytest.raises(NotFound):
        await stores.models.get("empty")
    assert (await stores.models.create(Model("empty", "again", NOW), request("req_9"))).description == "again"


async def test_an_alias_moves_only_from_where_it_is(stores: Stores) -> None:
    await add_ready(stores, "a")
    await add_ready(stores, "b")
    assert (await stores.models.move_alias(change(0, 1))).aliases == {"champion": 1}
    for stale in (change(0, 2), change(2, 1)):
        with pytest.raises(Aborted, match="champion"):
            await stores.models.move_alias(stale)
    assert (await stores.models.move_alias(change(1, 2))).aliases == {"champion": 2}
    taken_back = replace(change(2, 1), takes_back=True)
    await stores.models.move_alias(taken_back)
    kept = await stores.models.history("starter", "champion", None, None)
    assert [entry.change for entry in kept] == [taken_back, change(1, 2), change(0, 1)]
    assert await stores.models.history("starter", "candidate", None, None) == []


async def test_an_alias_points_only_at_what_is_ready(stores: Stores) -> None:
    await add_version(stores)
    with pytest.raises(FailedPrecondition, match="starter@1 is not ready"):
        await stores.models.move_alias(change(0, 1))
    with pytest.raises(NotFound, match="no version 2"):
        await stores.models.move_alias(change(0, 2))
    with pytest.raises(NotFound, match="no model"):
        await stores.models.move_alias(replace(change(0, 2), model="nobody"))


async def test_two_who_move_an_alias_at_once_do_not_both_win(stores: Stores) -> None:
    for id in ("a", "b", "c"):
        await add_ready(stores, id)
    await stores.models.move_alias(change(0, 1))
    results = await asyncio.gather(
        stores.models.move_alias(change(1, 2)), stores.models.move_alias(change(1, 3)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["Aborted", "Model"]
    assert len(await stores.models.history("starter", "champion", 10, None)) == 2


async def test_history_is_kept_newest_first(stores: Stores) -> None:
    await add_ready(stores)
    moves = [change(0, 1), replace(change(0, 1, "candidate"), create_time=NOW + timedelta(hours=1))]
    for move in moves:
        await stores.models.move_alias(move)
    entries = await stores.models.history("starter", None, 10, None)
    assert [entry.change for entry in entries] == moves[::-1]
    earlier = await stores.models.history("starter", None, 10, entries[0].position)
    assert [entry.change for entry in earlier] == moves[:1]
    candidates = await stores.models.history("starter", "candidate", 10, None)
    assert [entry.change.alias for entry in candidates] == ["candidate"]
    with pytest.raises(NotFound):
        await stores.models.history("nobody", None, 10, None)


async def test_a_version_and_an_alias_to_it_are_not_deleted_and_made_at_once(stores: Stores) -> None:
    await add_ready(stores)
    results = await asyncio.gather(
        stores.versions.delete(starter(1), NOW), stores.models.move_alias(change(0, 1, "mine")), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) in (
        ["FailedPrecondition", "Model"],
        ["NotFound", "Version"],
    )
