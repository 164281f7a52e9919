"""The worker of stored batches on a real stream: faults of the platform are tried again, and never a verdict."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import batch_pb2, program_pb2
from ratchet_kit.errors import Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.queues import StreamQueue
from ratchet_kit.streams import Stream
from ratchet_kit.times import SystemClock
from ratchet_kit.worker import Timing, Worker
from sandbox_service.convert import Bounds, new_batch_from_proto, program_from_bytes, record_from_item
from sandbox_service.domain.batch import PLATFORM_ERROR, Batch, ChunkRef, Record, State
from sandbox_service.domain.batches import Batches
from sandbox_service.domain.jobs import End, Job, Report, Stage
from sandbox_service.domain.program import Limits
from sandbox_service.domain.sandbox import Sandbox, do_here
from sandbox_service.unpacking import Unpacker
from sandbox_service.worker import MAX_ATTEMPTS, ChunkWork, Wire

from ..doubles import ScriptedExecutor
from ..memory import MemoryBatchStore

pytestmark = pytest.mark.integration

BOUNDS = Bounds(Limits(), 1 << 20)
LEASE = timedelta(seconds=0.3)
FAST = Timing(
    beat=timedelta(seconds=0.1),
    reconcile=timedelta(seconds=0.2),
    settle=timedelta(),
    block=timedelta(seconds=0.5),
    pause=timedelta(seconds=0.1),
)
RAN = Report(End.EXITED, 0, Stage.ENDED, timedelta(), timedelta(), ("scripted",))


class World:
    """Any number of nodes over one store in memory and one stream; `fault` says whether a job fails."""

    def __init__(self, redis: Any) -> None:
        self.redis, self.store, self.clock = redis, MemoryBatchStore(), SystemClock()
        self.runs: Counter[str] = Counter()
        self.fault: Callable[[str], BaseException | None] = lambda source: None
        self.hang = asyncio.Event()
        self.hang.set()
        self.batches = Batches(
            self.store,
            StreamQueue(self.stream("door")),
            lambda: self.sandbox().capabilities,
            self.clock,
            timedelta(milliseconds=20),
        )

    def stream(self, name: str) -> Stream:
        return Stream(self.redis, "sandbox.batches", "sandbox-nodes", name, LEASE)

    def sandbox(self) -> Sandbox:
        async def run(job: Job) -> Report:
            self.runs[job.source] += 1
            if fault := self.fault(job.source):
                raise fault
            await self.hang.wait()
            return RAN

        return Sandbox(ScriptedExecutor(run), 100)

    @asynccontextmanager
    async def node(self, name: str) -> AsyncIterator[None]:
        unpack = Unpacker(do_here)
        wire = Wire(lambda content: unpack(len(content), program_from_bytes, content, BOUNDS), record_from_item)
        work = ChunkWork(name, LEASE, self.store, self.sandbox(), wire, self.clock)
        queue, stop = StreamQueue(self.stream(name)), asyncio.Event()
        worker = Worker(queue, work, self.clock, slots=2, max_attempts=MAX_ATTEMPTS, timing=FAST)
        running = asyncio.create_task(worker.run(stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait_for(running, 10)

    async def create(self, *sources: str) -> Batch:
        programs = [program_pb2.Program(id=source, source=source) for source in sources]
        request = batch_pb2.CreateBatchRequest(programs=programs)
        return await self.batches.create(new_batch_from_proto(request, BOUNDS).programs)

    async def end(self, batch: Batch) -> tuple[Batch, dict[int, Record]]:
        records: dict[int, Record] = {}
        async with asyncio.timeout(30):
            async for progress in self.batches.watch(batch.id):
                records |= {record.index: record for record in progress.records}
        return progress.batch, records


@pytest.fixture
async def world(redis: Any) -> World:
    return World(redis)


async def test_a_fault_of_the_platform_is_tried_again(world: World) -> None:
    """A node tries a program twice; here the third time works, for the rest is recorded at once."""
    world.fault = lambda source: Unavailable("lane lost") if source == "bad" and world.runs["bad"] <= 2 else None
    async with world.node("one"):
        batch, records = await world.end(await world.create("good", "bad", "fine"))
    assert batch.state is State.SUCCEEDED
    assert {record.verdict for record in records.values()} == {"PASSED"}
    assert world.runs == {"good": 1, "bad": 3, "fine": 1}


async def test_after_the_last_attempt_it_says_so(world: World, redis: Any) -> None:
    world.fault = lambda source: Unavailable("lane lost") if source == "bad" else None
    async with world.node("one"):
        batch, records = await world.end(await world.create("good", "bad"))
    assert batch.state is State.SUCCEEDED
    assert [records[i].verdict for i in range(2)] == ["PASSED", PLATFORM_ERROR]
    item = program_pb2.ExecutionItem.FromString(records[1].content)
    assert (item.index, item.WhichOneof("outcome")) == (1, "platform_error")
    assert item.platform_error == f"one: lane lost (after {MAX_ATTEMPTS} attempts)"
    assert world.runs == {"good": 1, "bad": 2 * MAX_ATTEMPTS}
    letters = await world.stream("door").dead_letters()
    assert [letter["id"] for letter in letters] == [f"{batch.id}/0"]
    assert letters[0]["dead_reason"].startswith("one: lane lost")
    assert sum((await world.stream("door").depth()).values()) == 0


async def test_a_bug_is_no_verdict_either(world: World) -> None:
    world.fault = lambda source: ValueError("a bug") if source == "bad" else None
    async with world.node("one"):
        _, records = await world.end(await world.create("bad", "good"))
    assert [records[i].verdict for i in range(2)] == [PLATFORM_ERROR, "PASSED"]
    assert b"the sandbox failed on this program (ValueError" in records[0].content
    assert b"a bug" not in records[0].content


async def test_nodes_that_die_of_a_chunk_do_not_do_so_for_ever(world: World) -> None:
    """As after a kill -9: the hold runs out, with nothing said. One node is left to say it."""
    batch = await world.create("killer", "other")
    [waiting] = await world.store.waiting(world.clock.now(), 10)
    await world.store.record(batch.id, [Record(1, "PASSED", b"")])
    for _ in range(MAX_ATTEMPTS):
        await world.store.claim(
            ChunkRef.parse(waiting.id), "dead", world.clock.now() - timedelta(hours=1), timedelta(seconds=1)
        )
    async with world.node("one"):
        ended, records = await world.end(batch)
    assert ended.state is State.SUCCEEDED
    assert [records[i].verdict for i in range(2)] == [PLATFORM_ERROR, "PASSED"]
    assert world.runs == {}


async def test_a_flushed_queue_is_filled_by_any_node(world: World, redis: Any) -> None:
    made = [await world.create(*(f"{batch}.{i}" for i in range(40))) for batch in range(3)]
    await redis.flushall()
    async with world.node("one"), world.node("two"):
        ends = [await world.end(batch) for batch in made]
    assert [(batch.state, len(records)) for batch, records in ends] == [(State.SUCCEEDED, 40)] * 3
    assert set(world.runs.values()) == {1}


async def test_a_message_for_nothing_is_dropped(world: World) -> None:
    stream = world.stream("door")
    for payload in ({"id": "gone/0"}, {"id": "astray"}, {"evaluation_id": "astray"}):
        await stream.publish(payload)
    async with world.node("one"):
        await world.end(await world.create("good"))
        async with asyncio.timeout(5):
            while sum((await stream.depth()).values()):
                await asyncio.sleep(0.02)


async def test_a_hold_is_kept_while_programs_run(world: World) -> None:
    """Longer than the lease, with another node that would take what is let go."""
    world.hang.clear()
    async with world.node("one"), world.node("two"):
        batch = await world.create("slow")
        await asyncio.sleep(4 * LEASE.total_seconds())
        world.hang.set()
        await world.end(batch)
    assert world.runs == {"slow": 1}


async def test_what_is_cancelled_stops_running(world: World) -> None:
    world.hang.clear()
    async with world.node("one"):
        batch = await world.create("endless", "other")
        async with asyncio.timeout(5):
            while not world.runs:
                await asyncio.sleep(0.01)
        await world.batches.cancel(batch.id)
        await asyncio.sleep(3 * FAST.beat.total_seconds())
        world.hang.set()
        ended, records = await world.end(batch)
        assert (ended.state, records) == (State.CANCELLED, {})
        assert (await world.end(await world.create("next")))[0].state is State.SUCCEEDED


async def test_what_this_node_cannot_take_is_a_fault_that_names_the_field(world: World) -> None:
    """Another node may have wider bounds, or what this one lacks. The large program is read in a thread."""
    large = "#" * (300 << 10)
    programs = [
        program_pb2.Program(source=large),
        program_pb2.Program(source="good"),
        program_pb2.Program(source="wide", limits=problem_pb2.Limits(memory_bytes=8 << 30)),
    ]
    contents = [program.SerializeToString() for program in programs]
    batch = Batch("batch_1", 3, world.clock.now())
    await world.store.create(batch, contents, Request("r", ""))
    async with world.node("one"):
        _, records = await world.end(batch)
    assert [records[i].verdict for i in range(3)] == ["PASSED", "PASSED", PLATFORM_ERROR]
    fault = program_pb2.ExecutionItem.FromString(records[2].content).platform_error
    assert fault.startswith("one: program.limits.memory_bytes must be ")
    assert world.runs == {large: 1, "good": 1}
