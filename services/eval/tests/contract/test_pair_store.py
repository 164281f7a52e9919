"""What every PairStore promises: in memory, on SQLite and on PostgreSQL."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from eval_service.adapters.sql_pairs import SqlPairStore
from eval_service.adapters.tables import pairs
from eval_service.domain.pair import Choice, Pair, Side
from eval_service.domain.ports import PairStore
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database

from ..memory_pairs import MemoryPairStore

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def store(database_or_memory: Database | None) -> PairStore:
    return SqlPairStore(database_or_memory) if database_or_memory else MemoryPairStore()


def pair(id: str, left: str = "eval_1", right: str = "eval_2") -> Pair:
    return Pair(id, "ada", "basics", "p1", "Sum xs.", Side(left, 0, "a = 'é'"), Side(right, 3, "b"), NOW)


async def add(store: PairStore, *pairs: Pair) -> None:
    for one in pairs:
        assert await store.create(one, Request(f"req_{one.id}", "f")) == one


async def test_a_request_makes_one_pair(store: PairStore) -> None:
    assert await store.find(Request("req_1", "f")) is None
    first = await store.create(pair("pair_1"), Request("req_1", "f"))
    assert await store.create(pair("pair_2"), Request("req_1", "f")) == first == pair("pair_1")
    with pytest.raises(AlreadyExists, match="another pair"):
        await store.find(Request("req_1", "g"))


async def test_a_vote_is_stored_once(store: PairStore) -> None:
    await add(store, pair("pair_1"))
    later = NOW + timedelta(seconds=3)
    voted = await store.change("pair_1", lambda one: one.vote(Choice.TIE, later))
    assert voted == replace(pair("pair_1"), choice=Choice.TIE, vote_time=later)
    with pytest.raises(FailedPrecondition):
        await store.change("pair_1", lambda one: one.vote(Choice.LEFT, later))
    assert await store.page(9, None) == [voted]
    with pytest.raises(NotFound):
        await store.change("pair_2", lambda one: one)


async def test_pages_are_newest_first_and_of_one_evaluation(store: PairStore) -> None:
    await add(store, pair("pair_1"), pair("pair_2", "eval_3"), pair("pair_3", "eval_2", "eval_1"))
    assert [one.id for one in await store.page(2, None)] == ["pair_3", "pair_2"]
    assert [one.id for one in await store.page(2, "pair_2")] == ["pair_1"]
    assert [one.id for one in await store.page(9, None, "eval_1")] == ["pair_3", "pair_1"]


async def test_between_has_both_sides_among_those_named(store: PairStore) -> None:
    await add(store, pair("pair_1"), pair("pair_2", "eval_3"), pair("pair_3", "eval_2", "eval_1"))
    assert [one.id for one in await store.between(["eval_1", "eval_2"])] == ["pair_1", "pair_3"]
    assert [one.id for one in await store.between(["eval_2", "eval_3"])] == ["pair_2"]
    assert await store.between(["eval_1", "eval_3"]) == []


async def test_a_pair_that_cannot_be_read_hides_no_other_in_a_list(database: Database) -> None:
    store = SqlPairStore(database)
    await add(store, *(pair(f"pair_{number}") for number in (1, 2, 3)))
    async with database.writing() as connection:
        await connection.execute(update(pairs).where(pairs.c.id == "pair_2").values(choice="unheard"))
    assert [one.id for one in await store.page(2, None)] == ["pair_3", "pair_1"]


async def test_what_nobody_voted_on_is_forgotten(store: PairStore) -> None:
    newer = replace(pair("pair_3"), create_time=NOW + timedelta(days=2))
    await add(store, pair("pair_1"), pair("pair_2"), newer)
    voted = await store.change("pair_2", lambda one: one.vote(Choice.LEFT, NOW))
    assert await store.forget_unvoted(NOW + timedelta(days=1)) == 1
    assert await store.page(9, None) == [newer, voted]
    assert await store.find(Request("req_pair_1", "f")) is None
    assert await store.forget_unvoted(NOW + timedelta(days=1)) == 0
