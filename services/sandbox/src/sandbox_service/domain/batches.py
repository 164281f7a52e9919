"""Use cases of stored batches: create, get, watch, cancel."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ratchet_kit.errors import FailedPrecondition, FieldViolation, InvalidArgument, Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from sandbox_service.domain.batch import Asked, Batch, Record, chunks
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.ports import BatchQueue, BatchStore
from sandbox_service.domain.queue import Priority
from sandbox_service.domain.runtimes import settle

log = get_logger(__name__)

_MAX_REQUEST_ID = 200
_RECORDS_AT_A_TIME = 32
_PORTION = 8 << 20  # bytes


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
            log.warning("batch.not_queued_yet", batch_id=batch.id, reason=error.message)
        log.info("batch.created", batch_id=batch.id, programs=batch.programs_total)
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
