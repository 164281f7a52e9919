"""Stored batches over a store in memory."""

import asyncio
import hashlib
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Unimplemented,
)
from ratchet_kit.work import Priority
from ratchet_testing.clock import ManualClock
from ratchet_testing.queue import MemoryQueue
from sandbox_service.domain.batch import CHUNK, ChunkRef, NewProgram, Record, State
from sandbox_service.domain.batches import Batches, NoBatches
from sandbox_service.domain.capabilities import Capabilities, Runtime
from sandbox_service.domain.program import CallTest, Program

from ..memory import MemoryBatchStore


class World:
    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.store, self.queue = clock, MemoryBatchStore(), MemoryQueue()
        runtimes = (Runtime("python", "python", ""), Runtime("bash", "bash", ""))
        self.capabilities = Capabilities((), "3.11", 2, runtimes)
        self.batches = Batches(
            self.store, self.queue, lambda: self.capabilities, clock, watch_interval=timedelta(milliseconds=1)
        )


@pytest.fixture
def world(clock: ManualClock) -> World:
    return World(clock)


def new_programs(count: int) -> list[NewProgram]:
    return [NewProgram(Program(str(i), "pass"), str(i).encode()) for i in range(count)]


async def test_a_batch_is_queued_in_chunks(world: World) -> None:
    batch = await world.batches.create(new_programs(2 * CHUNK + 1), "me", Priority.LOW)
    assert world.queue.ids == [f"{batch.id}/{first}" for first in (0, CHUNK, 2 * CHUNK)]
    assert (await world.queue.take(timedelta())).priority is Priority.LOW
    assert (batch.state, batch.programs_total, batch.caller) == (State.RUNNING, 2 * CHUNK + 1, "me")


async def test_hashing_many_megabytes_holds_up_no_other_call(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, sha256 = [], hashlib.sha256

    def noted(begin: bytes = b"") -> object:
        if begin == b"HIGH":
            threads.append(threading.current_thread())
        return sha256(begin)

    monkeypatch.setattr(hashlib, "sha256", noted)
    await world.batches.create(new_programs(3), priority=Priority.HIGH)
    assert threads
    assert threading.main_thread() not in threads


async def test_a_request_queues_once_and_means_one_thing(world: World) -> None:
    first = await world.batches.create(new_programs(3), request_id="r")
    assert await world.batches.create(new_programs(3), request_id="r") == first
    assert len(world.queue.ids) == 1
    with pytest.raises(AlreadyExists, match="used before"):
        await world.batches.create(new_programs(3), priority=Priority.HIGH, request_id="r")
    glued = [NewProgram(Program("0", "pass"), b"01"), NewProgram(Program("2", "pass"), b"2")]
    with pytest.raises(AlreadyExists, match="used before"):
        await world.batches.create(glued, request_id="r")
    assert (await world.batches.create(new_programs(3))).id != first.id


async def test_a_batch_is_its_callers_own(world: World) -> None:
    mine = await world.batches.create(new_programs(3), "me", request_id="r")
    theirs = await world.batches.create(new_programs(2), "them", request_id="r")
    assert mine.id != theirs.id
    assert [each.id for each in (await world.batches.page(0, "", "me")).items] == [mine.id]
    await world.batches.cancel(mine.id, "me")
    for call in (world.batches.get, world.batches.cancel, world.batches.delete):
        with pytest.raises(NotFound, match="there is no batch"):
            await call(mine.id, "them")
    with pytest.raises(NotFound):
        await anext(world.batches.watch(mine.id, "them"))
    assert (await world.batches.get(mine.id, "me")).state is State.CANCELLED


async def test_a_queue_that_is_away_loses_nothing(world: World) -> None:
    world.queue.is_away = True
    batch = await world.batches.create(new_programs(1))
    assert [one.id for one in await world.store.waiting(world.clock.now(), 10)] == [f"{batch.id}/0"]


async def test_what_this_node_cannot_run_is_refused_and_not_stored(world: World) -> None:
    cobol = NewProgram(Program("c", "STOP RUN.", language="cobol"), b"c")
    with pytest.raises(Unimplemented, match="cobol"):
        await world.batches.create([*new_programs(2), cobol])
    called = NewProgram(Program("b", "exit", "f", (CallTest((), 1),), language="bash"), b"b")
    with pytest.raises(InvalidArgument) as refused:
        await world.batches.create([*new_programs(2), called])
    assert [one.field for one in refused.value.violations] == ["programs[2].tests[0]"]
    with pytest.raises(InvalidArgument) as refused:
        await world.batches.create([], request_id="a\0b")
    assert [one.field for one in refused.value.violations] == ["programs", "request_id"]
    assert await world.store.waiting(world.clock.now(), 10) == []


async def test_watching_tells_each_record_once_and_ends_with_the_batch(world: World) -> None:
    batch = await world.batches.create(new_programs(70))
    seen: list[int] = []
    states: list[State] = []

    async def watch() -> None:
        async for progress in world.batches.watch(batch.id):
            seen.extend(record.index for record in progress.records)
            states.append(progress.batch.state)

    watching = asyncio.create_task(watch())
    order = [*range(69, 0, -2), *range(0, 70, 2)]
    for index in order:
        await world.store.record(batch.id, [Record(index, "PASSED", b"")])
        if index % 7 == 0:
            await asyncio.sleep(0.003)
    for chunk in range(0, 70, CHUNK):
        await world.store.finish(ChunkRef(batch.id, chunk), world.clock.now())
    await asyncio.wait_for(watching, 5)
    assert sorted(seen) == list(range(70))
    assert states[0] is State.RUNNING
    assert states[-1] is State.SUCCEEDED


async def test_large_records_travel_apart(world: World) -> None:
    batch = await world.batches.create(new_programs(5))
    sizes = [5 << 20, 5 << 20, 1, 1, 20 << 20]
    await world.store.record(batch.id, [Record(i, "PASSED", bytes(size)) for i, size in enumerate(sizes)])
    await world.batches.cancel(batch.id)
    told = [[one.index for one in each.records] async for each in world.batches.watch(batch.id)]
    assert told == [[0], [1, 2, 3], [4], []]


async def test_cancelling(world: World) -> None:
    batch = await world.batches.create(new_programs(1))
    cancelled = await world.batches.cancel(batch.id)
    assert cancelled == replace(batch, state=State.CANCELLED, end_time=world.clock.now())
    for call in (world.batches.cancel, world.batches.get):
        with pytest.raises(NotFound):
            await call("nowhere")


async def test_a_node_without_a_queue_says_what_to_set() -> None:
    none = NoBatches(["REDIS_URL", "DATABASE_URL"])
    for call in (none.create(new_programs(1)), none.get("x"), none.page(0, ""), none.cancel("x"), none.delete("x")):
        with pytest.raises(FailedPrecondition, match="REDIS_URL and DATABASE_URL"):
            await call
    with pytest.raises(FailedPrecondition, match="REDIS_URL"):
        async for _ in none.watch("x"):
            pass


async def test_a_list_is_paged_newest_first(world: World) -> None:
    made = [(await world.batches.create(new_programs(1))).id for _ in range(5)]
    first = await world.batches.page(3, "")
    rest = await world.batches.page(3, first.next_page_token)
    assert [batch.id for batch in [*first.items, *rest.items]] == sorted(made, reverse=True)
    assert rest.next_page_token == ""


async def test_a_batch_is_deleted_once_it_has_ended(world: World) -> None:
    batch = await world.batches.create(new_programs(1), request_id="r")
    with pytest.raises(FailedPrecondition, match="cancel it first"):
        await world.batches.delete(batch.id)
    await world.batches.cancel(batch.id)
    await world.batches.delete(batch.id)
    for call in (world.batches.get, world.batches.delete):
        with pytest.raises(NotFound):
            await call(batch.id)
    assert (await world.batches.create(new_programs(2), request_id="r")).programs_total == 2
