"""The batches that there are: create, look at, watch, cancel. And what they need from outside."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from ratchet_kit.errors import FailedPrecondition, FieldViolation, InvalidArgument, Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from sandbox_service.domain.batch import Asked, Batch, Chunk, ChunkRef, Claim, Record, chunks
from sandbox_service.domain.ports import Capabilities
from sandbox_service.domain.queue import Priority
from sandbox_service.domain.runtimes import settle

log = get_logger(__name__)

_MAX_REQUEST_ID = 200
_RECORDS_AT_A_TIME = 32
_PORTION = 8 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Waiting:
    """A chunk that no node has, and how urgent it is."""

    ref: ChunkRef
    priority: Priority


class BatchStore(Protocol):
    """Batches, their programs and what is recorded of them. Any method raises Unavailable when it can't be reached."""

    async def create(self, batch: Batch, programs: Sequence[bytes], request: Request) -> Batch:
        """Stores it with its programs and chunks, or returns the one that was stored under the request before.

        Raises AlreadyExists when another one was asked for under the request's id.
        """
        ...

    async def find(self, request: Request) -> Batch | None:
        """The batch of the request. Raises InvalidArgument as `create` does."""
        ...

    async def get(self, id: str) -> Batch:
        """Raises NotFound."""
        ...

    async def change(self, id: str, change: Callable[[Batch], Batch]) -> Batch:
        """Reads it, applies the change and writes the result, with nobody in between.

        Raises NotFound, and whatever `change` raises; nothing is written then.
        """
        ...

    async def claim(self, ref: ChunkRef, owner: str, now: datetime, lease: timedelta) -> Claim:
        """Raises NotFound, FailedPrecondition when the batch has ended, Aborted as Chunk.claim does."""
        ...

    async def change_chunk(self, ref: ChunkRef, change: Callable[[Chunk], Chunk]) -> Chunk:
        """As `change`. Raises FailedPrecondition when the batch has ended."""
        ...

    async def record(self, id: str, records: Sequence[Record]) -> int:
        """Records what is not recorded yet, and leaves what is as it is. Returns how many were new.

        Raises NotFound, FailedPrecondition when the batch has ended.
        """
        ...

    async def finish(self, ref: ChunkRef, now: datetime) -> Batch:
        """Marks the chunk as done when all of it is recorded, and the batch as succeeded when all its chunks are done.

        No error when there is nothing to mark. Raises NotFound.
        """
        ...

    async def recorded(self, id: str, first: int) -> Sequence[int]:
        """The indices from `first` on that something is recorded for, in order."""
        ...

    async def records(self, id: str, indices: Sequence[int]) -> Sequence[Record]:
        """Those of the indices that there are, in order."""
        ...

    async def waiting(self, now: datetime, limit: int) -> Sequence[Waiting]:
        """The oldest chunks of running batches that aren't done and that no living node has."""
        ...

    async def forget(self, before: datetime) -> int:
        """Deletes batches that ended before, with all that was theirs. Returns how many."""
        ...


class BatchQueue(Protocol):
    """Carries chunks to nodes. It holds no truth: what it loses is put back."""

    async def publish(self, refs: Sequence[ChunkRef], priority: Priority) -> None:
        """Raises Unavailable."""
        ...

    async def depth(self) -> int:
        """How many chunks wait or are being worked on. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """A batch as it is, and what was recorded since the last one."""

    batch: Batch
    records: Sequence[Record]


class Batches:
    def __init__(
        self,
        store: BatchStore,
        queue: BatchQueue,
        capabilities: Callable[[], Capabilities],
        clock: Clock,
        watch_interval: timedelta = timedelta(milliseconds=200),
    ) -> None:
        self._store = store
        self._queue = queue
        self._capabilities = capabilities
        self._clock = clock
        self._watch_interval = watch_interval.total_seconds()

    async def create(
        self,
        asked: Sequence[Asked],
        caller: str = "",
        priority: Priority = Priority.NORMAL,
        request_id: str = "",
    ) -> Batch:
        """Stores and queues it. Raises InvalidArgument, and what `settle` raises."""
        _check(asked, request_id)
        request = Request(request_id or new_id("req"), _fingerprint(asked, priority))
        if existing := await self._store.find(request):
            return existing
        # In a thread: what imports something is parsed, and these are many.
        await asyncio.to_thread(self._settle, asked)
        wanted = Batch(new_id("batch"), len(asked), self._clock.now(), priority, caller)
        batch = await self._store.create(wanted, [one.content for one in asked], request)
        try:
            await self._queue.publish([chunk.ref for chunk in chunks(batch)], priority)
        except Unavailable as error:
            # It is stored, so it is created: a worker puts it on the queue once that can be reached.
            log.warning("batch.not_queued_yet", batch=batch.id, error=error.message)
        log.info("batch.created", batch=batch.id, programs=batch.programs_total)
        return batch

    async def get(self, id: str) -> Batch:
        return await self._store.get(id)

    async def cancel(self, id: str) -> Batch:
        """What runs is killed within seconds, and nothing more is recorded. Raises NotFound, FailedPrecondition when
        it has succeeded."""
        now = self._clock.now()
        return await self._store.change(id, lambda batch: batch.cancel(now))

    async def watch(self, id: str) -> AsyncIterator[Progress]:
        """What is recorded, a few at a time, then what comes, whichever node recorded it; last the batch as it ended.

        Raises NotFound.
        """
        first, seen, told = 0, set[int](), False
        while True:
            batch = await self._store.get(id)  # before the records: when it has ended, no more come
            there = await self._store.recorded(id, first) if batch.programs_done > first + len(seen) else ()
            new = [index for index in there if index not in seen]
            for start in range(0, len(new), _RECORDS_AT_A_TIME):
                records = await self._store.records(id, new[start : start + _RECORDS_AT_A_TIME])
                for some in _portions(records):
                    yield Progress(batch, some)
            if batch.state.ended or not (told or new):
                yield Progress(batch, ())
            if batch.state.ended:
                return
            told = True
            seen.update(new)
            while first in seen:
                seen.remove(first)
                first += 1
            await asyncio.sleep(self._watch_interval)

    def _settle(self, asked: Sequence[Asked]) -> None:
        """What this node couldn't run is refused now: nodes of one queue are alike."""
        capabilities = self._capabilities()
        for index, one in enumerate(asked):
            try:
                settle(one.program, capabilities)
            except InvalidArgument as error:
                found = [
                    FieldViolation(each.field.replace("program", f"programs[{index}]", 1), each.description)
                    for each in error.violations
                ]
                raise InvalidArgument(f"{found[0].field}: {found[0].description}", found) from None


class NoBatches:
    """Of a node without a queue: says what it lacks."""

    def __init__(self, missing: Sequence[str]) -> None:
        self._why = f"this node takes no stored batches: start it with {' and '.join(missing)} set; ExecuteBatch works"

    async def create(
        self,
        asked: Sequence[Asked],
        caller: str = "",
        priority: Priority = Priority.NORMAL,
        request_id: str = "",
    ) -> Batch:
        raise FailedPrecondition(self._why)

    async def get(self, id: str) -> Batch:
        raise FailedPrecondition(self._why)

    async def cancel(self, id: str) -> Batch:
        raise FailedPrecondition(self._why)

    def watch(self, id: str) -> AsyncIterator[Progress]:
        raise FailedPrecondition(self._why)


def _check(asked: Sequence[Asked], request_id: str) -> None:
    faults = []
    if not asked:
        faults.append(FieldViolation("programs", "holds no program"))
    if len(request_id) > _MAX_REQUEST_ID or "\0" in request_id:
        faults.append(FieldViolation("request_id", f"is longer than {_MAX_REQUEST_ID} characters or has NUL in it"))
    if faults:
        raise InvalidArgument(f"{faults[0].field}: {faults[0].description}", faults)


def _portions(records: Sequence[Record]) -> Iterator[list[Record]]:
    """As many records as fit in a message: with files, one may have megabytes."""
    portion: list[Record] = []
    size = 0
    for record in records:
        if portion and size + len(record.content) > _PORTION:
            yield portion
            portion, size = [], 0
        portion.append(record)
        size += len(record.content)
    if portion:
        yield portion


def _fingerprint(asked: Sequence[Asked], priority: Priority) -> str:
    digest = hashlib.sha256(priority.name.encode())
    for one in asked:
        digest.update(len(one.content).to_bytes(8))
        digest.update(one.content)
    return digest.hexdigest()
