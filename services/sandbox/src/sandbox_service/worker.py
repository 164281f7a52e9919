"""Queue in: takes chunks of stored batches off the queue, runs them, and puts back what the queue has lost."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ratchet_kit.errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    RatchetError,
    Unavailable,
    Unimplemented,
)
from ratchet_kit.logs import bound, get_logger
from ratchet_kit.streams import Message, Stream
from ratchet_kit.times import Clock
from ratchet_kit.work import Priority
from sandbox_service.domain import queue
from sandbox_service.domain.batch import CHUNK, ChunkRef, Claim, Record
from sandbox_service.domain.ports import BatchQueue, BatchStore
from sandbox_service.domain.program import Program
from sandbox_service.domain.runtimes import settle
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.domain.stream import Item, PlatformFault

log = get_logger(__name__)

MAX_ATTEMPTS = 5
"""How often a chunk is begun before what is left of it gets an error in place of a verdict."""

_ID, _FIRST = "batch_id", "first"
_BLOCK = timedelta(seconds=2)
_AFTER_FAULT = 1.0  # seconds
_LARGE = 1 << 18  # bytes
_MOST_WAITING = 10_000
_GIVEN_UP = (NotFound, FailedPrecondition, Aborted)
_NOT_HERE = (InvalidArgument, Unimplemented, FailedPrecondition)


class StreamQueue:
    """The domain's BatchQueue, on a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def publish(self, refs: Sequence[ChunkRef], priority: queue.Priority) -> None:
        for ref in refs:
            await self._stream.publish({_ID: ref.batch_id, _FIRST: str(ref.first)}, Priority[priority.name])

    async def depth(self) -> int:
        return sum((await self._stream.depth()).values())


@dataclass(frozen=True, slots=True)
class Timing:
    lease: timedelta = timedelta(seconds=30)
    """How long a chunk stays with a node that has died, and how long one that the platform failed waits."""
    beat: timedelta = timedelta(seconds=3)
    """How often a node renews its hold, and looks whether the batch was cancelled."""
    reconcile: timedelta = timedelta(seconds=10)
    retention: timedelta = timedelta(days=7)
    """How long a batch is kept after its end."""


@dataclass(frozen=True, slots=True)
class Wire:
    """From what is kept, and to it. `program` raises InvalidArgument."""

    program: Callable[[bytes], Program]
    record: Callable[[Item], Record]


class Worker:
    def __init__(
        self,
        name: str,
        stream: Stream,
        queue: BatchQueue,
        store: BatchStore,
        sandbox: Sandbox,
        wire: Wire,
        clock: Clock,
        timing: Timing = Timing(),
    ) -> None:
        """`name`: no other living node has it; one restarted under its old name may take up its work at once."""
        self._name = name
        self._stream = stream
        self._queue = queue
        self._store = store
        self._sandbox = sandbox
        self._wire = wire
        self._clock = clock
        self._timing = timing
        # One more than keeps all lanes busy, to have the next programs at hand when a chunk runs out.
        self._slots = 1 + -(-2 * sandbox.capabilities.lanes // CHUNK)
        self._active: set[ChunkRef] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Works until told to stop; then gives back what it holds, and returns."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reconcile_until(stop))
            for _ in range(self._slots):
                tasks.create_task(self._consume_until(stop))

    # The queue

    async def _consume_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                for message in await self._stream.read(1, _BLOCK):
                    await self._handle(message, stop)
            except RatchetError as error:
                log.warning("batches.platform_fault", reason=error.message)
                await asyncio.sleep(_AFTER_FAULT)
            except Exception:  # programs of direct callers go on
                log.exception("batches.broken")
                await asyncio.sleep(_AFTER_FAULT)

    async def _handle(self, message: Message, stop: asyncio.Event) -> None:
        """Acknowledges the message once what it asked for is stored, or there is nothing to do for it."""
        ref = ChunkRef(message.payload.get(_ID, ""), int(message.payload.get(_FIRST, "0")))
        if ref in self._active:  # it was published twice
            await self._stream.ack(message)
            return
        self._active.add(ref)
        try:
            with bound(batch_id=ref.batch_id):
                await self._take(ref, message, stop)
        finally:
            self._active.discard(ref)

    async def _take(self, ref: ChunkRef, message: Message, stop: asyncio.Event) -> None:
        try:
            claim = await self._store.claim(ref, self._name, self._clock.now(), self._timing.lease)
        except _GIVEN_UP as error:
            log.debug("batch.chunk_not_taken", first=ref.first, reason=error.message)  # ended, or in good hands
            await self._stream.ack(message)
            return
        if claim.chunk.attempts > MAX_ATTEMPTS:
            why = f"given up: {MAX_ATTEMPTS} times a node has ended, or lost its database, while it ran this"
            await self._fail(claim, dict.fromkeys(claim.programs, why), message)
            return
        await self._work(claim, message, stop)

    # One chunk

    async def _work(self, claim: Claim, message: Message, stop: asyncio.Event) -> None:
        running = asyncio.create_task(self._execute(claim))
        stopping = asyncio.create_task(stop.wait())
        try:
            while True:
                beat = self._timing.beat.total_seconds()
                await asyncio.wait({running, stopping}, timeout=beat, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    break
                if stop.is_set():
                    await _cancel(running)
                    await self._give_back(claim, message)
                    return
                if not await self._keep(claim.chunk.ref, message):
                    return
            await self._conclude(claim, running, message)
        finally:
            await _cancel(running)
            await _cancel(stopping)

    async def _execute(self, claim: Claim) -> dict[int, str]:
        """Records what comes of the programs. Returns why some could not be run here, by index.

        Raises NotFound and FailedPrecondition when the batch has gone or ended, Unavailable.
        """
        if sum(len(content) for content in claim.programs.values()) <= _LARGE:
            programs, faults = self._read(claim)
        else:  # as in the servicer: literals take about a second for each MB to parse
            programs, faults = await asyncio.to_thread(self._read, claim)
        places = list(programs)
        if not programs:
            return faults

        async def one() -> AsyncIterator[Sequence[Program]]:
            yield list(programs.values())

        stream = self._sandbox.execute_stream(one(), claim.caller, claim.priority, patient=True)
        async with aclosing(stream):
            async for items in stream:
                done = []
                for item in items:
                    index = places[item.index]
                    if isinstance(item.outcome, PlatformFault):
                        faults[index] = f"{self._name}: {item.outcome.message}"
                    else:
                        done.append(self._wire.record(Item(index, item.outcome)))
                await self._store.record(claim.chunk.ref.batch_id, done)
        return faults

    def _read(self, claim: Claim) -> tuple[dict[int, Program], dict[int, str]]:
        """The programs by index, and why some can't be run here."""
        programs: dict[int, Program] = {}
        faults: dict[int, str] = {}
        for index, content in claim.programs.items():
            try:
                programs[index] = settle(self._wire.program(content), self._sandbox.capabilities)
            except _NOT_HERE as error:
                faults[index] = f"{self._name}: {error.message}"
        return programs, faults

    async def _keep(self, ref: ChunkRef, message: Message) -> bool:
        """Renews the hold. False when the batch was cancelled, or the chunk is with another node now."""
        until = self._clock.now() + self._timing.lease
        try:
            await self._store.change_chunk(ref, lambda chunk: chunk.renew(self._name, until))
        except _GIVEN_UP as error:
            log.info("batch.chunk_left", first=ref.first, reason=error.message)
            return False
        except Unavailable as error:
            log.warning("batch.hold_not_renewed", reason=error.message)
        with suppress(Aborted, Unavailable):  # the store's hold is what counts
            await self._stream.extend(message)
        return True

    async def _conclude(self, claim: Claim, running: asyncio.Task[dict[int, str]], message: Message) -> None:
        """What the platform failed is tried again, by whichever node finds the message once its lease has run out."""
        ref = claim.chunk.ref
        try:
            faults = running.result()
        except _GIVEN_UP as error:
            log.info("batch.chunk_left", first=ref.first, reason=error.message)
            await self._stream.ack(message)
            return
        except Unavailable:  # of the database: no fault of the programs
            await self._store.change_chunk(ref, lambda chunk: chunk.release(self._name, attempted=False))
            raise
        except Exception:
            log.exception("batch.broken", first=ref.first)
            faults = dict.fromkeys(claim.programs, "an internal error of sandbox-service; its log has more")
        if faults and claim.chunk.attempts >= MAX_ATTEMPTS:
            await self._fail(claim, faults, message)
        elif faults:
            log.warning("batch.platform_faults", first=ref.first, attempt=claim.chunk.attempts, programs=len(faults))
            with suppress(*_GIVEN_UP):
                await self._store.change_chunk(ref, lambda chunk: chunk.release(self._name, attempted=True))
        else:
            await self._finish(ref)
            await self._stream.ack(message)
            log.debug("batch.chunk_done", first=ref.first, programs=len(claim.programs))

    async def _fail(self, claim: Claim, faults: dict[int, str], message: Message) -> None:
        """Says of each program that it has no verdict, and why, and keeps the message as a dead letter."""
        first = next(iter(faults.values()), "")
        log.error("batch.programs_given_up", first=claim.chunk.ref.first, programs=len(faults), reason=first)
        records = [
            self._wire.record(Item(index, PlatformFault(f"{why} (after {MAX_ATTEMPTS} attempts)")))
            for index, why in faults.items()
        ]
        with suppress(*_GIVEN_UP):  # cancelled meanwhile
            await self._store.record(claim.chunk.ref.batch_id, records)
            await self._finish(claim.chunk.ref)
        await self._stream.dead_letter(message, first)

    async def _finish(self, ref: ChunkRef) -> None:
        batch = await self._store.finish(ref, self._clock.now())
        if batch.state.ended:
            log.info("batch.ended", state=str(batch.state), programs=batch.programs_total)

    async def _give_back(self, claim: Claim, message: Message) -> None:
        """For another node to take at once."""
        ref = claim.chunk.ref
        with suppress(*_GIVEN_UP):  # cancelled or taken over meanwhile
            await self._store.change_chunk(ref, lambda chunk: chunk.release(self._name, attempted=False))
            await self._queue.publish([ref], claim.priority)
            log.info("batch.chunk_given_back", first=ref.first)
        await self._stream.ack(message)

    # What the queue has lost

    async def _reconcile_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._requeue()
                await self._store.forget(self._clock.now() - self._timing.retention)
            except RatchetError as error:
                log.warning("batches.platform_fault", reason=error.message)
            except Exception:
                log.exception("batches.broken")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._timing.reconcile.total_seconds())

    async def _requeue(self) -> None:
        """Publishes the chunks that wait for a node when the queue has fewer messages than they are: it was flushed,
        or could not be reached when they were made. One that is published twice is recorded once.

        Raises Unavailable.
        """
        waiting = await self._store.waiting(self._clock.now(), _MOST_WAITING)
        if not waiting or await self._queue.depth() >= len(waiting):
            return
        by_priority: defaultdict[queue.Priority, list[ChunkRef]] = defaultdict(list)
        for one in waiting:
            by_priority[one.priority].append(one.ref)
        for priority, refs in by_priority.items():
            await self._queue.publish(refs, priority)
        log.info("batches.requeued", chunks=len(waiting))


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancels the task and waits for it; what it raised or gave is left to `task.result()`."""
    task.cancel()
    await asyncio.wait({task})
