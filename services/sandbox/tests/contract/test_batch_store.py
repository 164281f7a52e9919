"""What every BatchStore promises: in memory, on SQLite and on PostgreSQL."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from ratchet_kit.errors import Aborted, AlreadyExists, FailedPrecondition, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database
from ratchet_kit.work import Priority, Waiting
from sandbox_service.adapters.batches.sql import SqlBatchStore
from sandbox_service.adapters.batches.tables import batches
from sandbox_service.domain.batch import CHUNK, Batch, ChunkRef, Record, State
from sandbox_service.domain.ports import BatchStore

from ..memory import MemoryBatchStore

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
LEASE = timedelta(seconds=30)
HOUR = timedelta(hours=1)
FIRST = ChunkRef("batch_1", 0)
SECOND = ChunkRef("batch_1", CHUNK)
TOTAL = CHUNK + 3


@pytest.fixture
def store(database_or_memory: Database | None) -> BatchStore:
    return SqlBatchStore(database_or_memory) if database_or_memory else MemoryBatchStore()


def batch(id: str = "batch_1", total: int = TOTAL) -> Batch:
    return Batch(id, total, NOW, Priority.HIGH, "somebody")


def content(index: int) -> bytes:
    return bytes([0, 255, index])


async def add(store: BatchStore, id: str = "batch_1", total: int = TOTAL) -> Batch:
    return await store.create(batch(id, total), [content(i) for i in range(total)], Request(f"req_{id}", "f"))


def _waiting(ref: ChunkRef) -> Waiting:
    return Waiting(str(ref), NOW, Priority.HIGH)


def record(index: int, verdict: str = "PASSED") -> Record:
    return Record(index, verdict, content(index) + verdict.encode())


async def test_a_request_makes_one_batch(store: BatchStore) -> None:
    assert await store.find(Request("req_1", "f")) is None
    first = await store.create(batch(total=1), [b"a"], Request("req_1", "f"))
    again = await store.create(batch("batch_2", 2), [b"a", b"b"], Request("req_1", "f"))
    assert again == first == batch(total=1)
    assert await store.find(Request("req_1", "f")) == first == await store.get("batch_1")
    assert [one.id for one in await store.waiting(NOW, 10)] == [str(FIRST)]
    for other in (
        store.find(Request("req_1", "g")),
        store.create(batch("batch_3", 1), [b"c"], Request("req_1", "g")),
    ):
        with pytest.raises(AlreadyExists, match="used before"):
            await other
    for unknown in ("batch_2", "no\0where"):
        with pytest.raises(NotFound, match="batch"):
            await store.get(unknown)


async def test_a_request_is_its_owners(store: BatchStore) -> None:
    mine = await store.create(batch(total=1), [b"a"], Request("r", "f", owner="me"))
    theirs = await store.create(
        replace(batch("batch_2", 2), caller="them"), [b"a", b"b"], Request("r", "g", owner="them")
    )
    assert await store.find(Request("r", "f", owner="me")) == mine
    assert await store.find(Request("r", "g", owner="them")) == theirs
    with pytest.raises(AlreadyExists, match="'r' was used before"):
        await store.find(Request("r", "g", owner="me"))


async def test_two_creates_at_once_make_one_batch(store: BatchStore) -> None:
    request = Request("req_1", "f")
    made = await asyncio.gather(*(store.create(batch(f"batch_{i}", 2), [b"a", b"b"], request) for i in range(4)))
    assert len({one.id for one in made}) == 1
    assert len(await store.waiting(NOW, 10)) == 1


async def test_a_chunk_is_with_one_node_at_a_time(store: BatchStore) -> None:
    await add(store)
    assert await store.waiting(NOW, 10) == [_waiting(FIRST), _waiting(SECOND)]
    assert await store.waiting(NOW, 1) == [_waiting(FIRST)]
    claim = await store.claim(SECOND, "one", NOW, LEASE)
    assert (claim.priority, claim.caller, claim.attempts) == (Priority.HIGH, "somebody", 1)
    assert claim.programs == {index: content(index) for index in range(CHUNK, TOTAL)}
    assert await store.waiting(NOW, 10) == [_waiting(FIRST)]
    with pytest.raises(Aborted, match="with one"):
        await store.claim(SECOND, "two", NOW + LEASE / 2, LEASE)

    await store.change_chunk(SECOND, lambda chunk: chunk.renew("one", NOW + LEASE, LEASE))
    with pytest.raises(Aborted, match="with one"):
        await store.claim(SECOND, "two", NOW + LEASE, LEASE)
    assert len(await store.waiting(NOW + 2 * LEASE, 10)) == 2
    assert (await store.claim(SECOND, "two", NOW + 2 * LEASE, LEASE)).attempts == 2  # "one" is dead
    with pytest.raises(Aborted, match="no longer with one"):
        await store.change_chunk(SECOND, lambda chunk: chunk.renew("one", NOW + 8 * LEASE, LEASE))

    assert (await store.change_chunk(SECOND, lambda chunk: chunk.release("two", attempted=False))).hold.attempts == 1
    assert len(await store.waiting(NOW, 10)) == 2
    claims = [store.claim(SECOND, name, NOW, LEASE) for name in ("one", "two", "three", "four")]
    ends = await asyncio.gather(*claims, return_exceptions=True)
    assert sum(isinstance(end, Aborted) for end in ends) == 3, ends


async def test_what_does_not_exist_cannot_be_worked_on(store: BatchStore) -> None:
    await add(store)
    for ref in (ChunkRef("batch_2", 0), ChunkRef("batch_1", 7)):
        with pytest.raises(NotFound):
            await store.claim(ref, "one", NOW, LEASE)
    with pytest.raises(NotFound):
        await store.record("batch_2", [record(0)])


async def test_of_two_records_the_first_stays(store: BatchStore) -> None:
    await add(store)
    assert await store.record("batch_1", []) == 0
    assert await store.record("batch_1", [record(3), record(1)]) == 2
    assert await store.record("batch_1", [record(1, "FAILED"), record(2, "FAILED")]) == 1
    assert await store.recorded("batch_1", 0) == [1, 2, 3]
    assert await store.recorded("batch_1", 2) == [2, 3]
    assert await store.records("batch_1", [2, 0, 1]) == [record(1), record(2, "FAILED")]
    assert (await store.get("batch_1")).programs_done == 3
    assert sorted((await store.claim(FIRST, "one", NOW, LEASE)).programs) == [0, *range(4, CHUNK)]


async def test_many_nodes_record_the_same_program_once(store: BatchStore) -> None:
    await add(store)
    verdicts = [f"NODE_{i}" for i in range(8)]
    new = await asyncio.gather(
        *(store.record("batch_1", [record(i, verdict) for i in range(5)]) for verdict in verdicts)
    )
    assert sum(new) == 5
    assert [one.index for one in await store.records("batch_1", range(5))] == list(range(5))


async def test_a_batch_ends_with_its_last_chunk(store: BatchStore) -> None:
    await add(store)
    await store.claim(FIRST, "one", NOW, LEASE)
    await store.record("batch_1", [record(i) for i in range(CHUNK - 1)])
    assert (await store.finish(FIRST, NOW)).state is State.RUNNING
    assert (await store.claim(FIRST, "one", NOW, LEASE)).attempts == 2  # not done
    await store.record("batch_1", [record(CHUNK - 1)])
    assert (await store.finish(FIRST, NOW)).state is State.RUNNING
    with pytest.raises(Aborted, match="recorded"):
        await store.claim(FIRST, "two", NOW + HOUR, LEASE)
    await store.record("batch_1", [record(i) for i in range(CHUNK, TOTAL)])
    ended = await asyncio.gather(*(store.finish(SECOND, NOW + HOUR) for _ in range(3)))
    assert {(one.state, one.end_time) for one in ended} == {(State.SUCCEEDED, NOW + HOUR)}
    assert await store.get("batch_1") == replace(
        batch(), state=State.SUCCEEDED, end_time=NOW + HOUR, programs_done=TOTAL
    )
    assert await store.waiting(NOW + HOUR, 10) == []
    with pytest.raises(FailedPrecondition, match="succeeded"):
        await store.change("batch_1", lambda batch: batch.cancel(NOW))


async def test_the_last_chunks_end_a_batch_together(store: BatchStore) -> None:
    await add(store)

    async def work(ref: ChunkRef, indices: range) -> None:
        await store.record("batch_1", [record(i) for i in indices])
        await store.finish(ref, NOW)

    await asyncio.gather(work(FIRST, range(CHUNK)), work(SECOND, range(CHUNK, TOTAL)))
    assert (await store.get("batch_1")).state is State.SUCCEEDED


async def test_a_cancelled_batch_takes_no_more(store: BatchStore) -> None:
    await add(store)
    await store.claim(FIRST, "one", NOW, LEASE)
    await store.record("batch_1", [record(0)])
    cancelled = await store.change("batch_1", lambda batch: batch.cancel(NOW + HOUR))
    again = await store.change("batch_1", lambda batch: batch.cancel(NOW + 2 * HOUR))
    assert again == cancelled == await store.get("batch_1")
    assert (cancelled.state, cancelled.end_time, cancelled.programs_done) == (State.CANCELLED, NOW + HOUR, 1)
    for refused in (
        store.record("batch_1", [record(1)]),
        store.claim(SECOND, "two", NOW, LEASE),
        store.change_chunk(FIRST, lambda chunk: chunk.renew("one", NOW, HOUR)),
    ):
        with pytest.raises(FailedPrecondition, match="cancelled"):
            await refused
    assert await store.waiting(NOW + HOUR, 10) == []
    assert await store.recorded("batch_1", 0) == [0]


async def test_what_ended_long_ago_is_forgotten(store: BatchStore) -> None:
    await add(store)
    await add(store, "batch_2")
    await store.record("batch_1", [record(0)])
    await store.change("batch_1", lambda batch: batch.cancel(NOW))
    assert await store.forget(NOW) == 0
    assert await store.forget(NOW + HOUR) == 1
    with pytest.raises(NotFound):
        await store.get("batch_1")
    assert {ChunkRef.parse(one.id).batch_id for one in await store.waiting(NOW, 10)} == {"batch_2"}
    assert await add(store) == batch()  # and its request with it


async def test_pages_begin_with_the_newest(store: BatchStore) -> None:
    for number in range(1, 5):
        await add(store, f"batch_{number}", 1)
    await store.record("batch_3", [record(0)])
    assert [one.id for one in await store.page("somebody", 3, None)] == ["batch_4", "batch_3", "batch_2"]
    assert await store.page("somebody", 3, "batch_2") == [batch(total=1)]
    assert (await store.page("somebody", 2, None))[1].programs_done == 1
    assert await store.page("nobody", 3, None) == []


async def test_what_has_ended_can_be_deleted(store: BatchStore) -> None:
    await add(store)
    await store.record("batch_1", [record(0)])
    with pytest.raises(FailedPrecondition, match="running"):
        await store.delete("batch_1")
    await store.change("batch_1", lambda batch: batch.cancel(NOW))
    await store.delete("batch_1")
    for unknown in ("batch_1", "no\0where"):
        with pytest.raises(NotFound):
            await store.delete(unknown)
    assert await add(store) == batch()  # and its request with it


async def test_a_batch_that_cannot_be_read_hides_no_other_in_a_list(database: Database) -> None:
    store = SqlBatchStore(database)
    for number in (1, 2, 3):
        await add(store, f"batch_{number}", total=1)
    async with database.writing() as connection:
        await connection.execute(update(batches).where(batches.c.id == "batch_2").values(state="unheard"))
    assert [one.id for one in await store.page("somebody", 2, None)] == ["batch_3", "batch_1"]
