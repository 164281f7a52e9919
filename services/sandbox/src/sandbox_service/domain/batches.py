"""Use cases of stored batches: create, get, list, watch, cancel, delete. Each caller has its own, and sees no other."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from ratchet_kit.work import ENQUEUE_LIMIT, Priority, Queue, surviving
from sandbox_service.domain.batch import Batch, NewProgram, Record, chunks
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.ports import BatchStore
from sandbox_service.domain.runtimes import settle
from sandbox_service.domain.stream import portions

log = get_logger(__name__)

_MAX_REQUEST_ID = 200
_RECORDS_AT_A_TIME = 32


@dataclass(frozen=True, slots=True)
class Progress:
    """A batch as it is, and what was recorded since the last one."""

    batch: Batch
    records: Sequence[Record]


class Batches:
    def __init__(
        self,
        store: BatchStore,
        queue: Queue,
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
        programs: Sequence[NewProgram],
        caller: str = "",
        priority: Priority = Priority.NORMAL,
        request_id: str = "",
    ) -> Batch:
        """Stores and queues it. Raises InvalidArgument, AlreadyExists, and what `settle` raises."""
        _check(programs, request_id)
        # In a thread: these are many megabytes.
        fingerprint = await asyncio.to_thread(_fingerprint, programs, priority)
        request = Request(request_id or new_id("req"), fingerprint, owner=caller)
        if existing := await self._store.find(request):
            return existing
        # So is this: what imports something is parsed.
        await asyncio.to_thread(self._settle, programs)
        batch = Batch(new_id("batch"), len(programs), self._clock.now(), priority, caller)
        batch = await self._store.create(batch, [each.content for each in programs], request)
        # It is stored, so it is created: a worker puts on the queue what is not there.
        with surviving("enqueue", batch_id=batch.id):
            async with asyncio.timeout(ENQUEUE_LIMIT.total_seconds()):
                for chunk in chunks(batch):
                    await self._queue.publish(str(chunk.ref), priority)
        log.info("batch.created", batch_id=batch.id, programs=batch.programs_total)
        return batch

    async def get(self, id: str, caller: str = "") -> Batch:
        """Raises NotFound."""
        return (await self._store.get(id)).seen_by(caller)

    async def page(self, page_size: int, page_token: str, caller: str = "") -> Page[Batch]:
        """Newest first. Raises InvalidArgument."""
        return await fetch_page(partial(self._store.page, caller), lambda batch: batch.id, str, page_size, page_token)

    async def cancel(self, id: str, caller: str = "") -> Batch:
        """What runs is killed within seconds, and nothing more is recorded. Raises NotFound, FailedPrecondition when
        it has succeeded."""
        now = self._clock.now()
        return await self._store.change(id, lambda batch: batch.seen_by(caller).cancel(now))

    async def delete(self, id: str, caller: str = "") -> None:
        """With its items. Raises NotFound, FailedPrecondition while it is running."""
        (await self._store.get(id)).seen_by(caller)
        await self._store.delete(id)
        log.info("batch.deleted", batch_id=id)

    async def watch(self, id: str, caller: str = "") -> AsyncIterator[Progress]:
        """What is recorded, a few at a time, then what comes, whichever node recorded it; last the batch as it ended.

        Raises NotFound.
        """
        first, seen, begun = 0, set[int](), False
        while True:
            batch = (await self._store.get(id)).seen_by(caller)  # before the records: when it has ended, no more come
            there = await self._store.recorded(id, first) if batch.programs_done > first + len(seen) else ()
            new = [index for index in there if index not in seen]
            for start in range(0, len(new), _RECORDS_AT_A_TIME):
                records = await self._store.records(id, new[start : start + _RECORDS_AT_A_TIME])
                for some in portions(records, lambda record: len(record.content)):
                    yield Progress(batch, some)
            if batch.state.ended or not (begun or new):
                yield Progress(batch, ())
            if batch.state.ended:
                return
            begun = True
            seen.update(new)
            while first in seen:
                seen.remove(first)
                first += 1
            await asyncio.sleep(self._watch_interval)

    def _settle(self, programs: Sequence[NewProgram]) -> None:
        """Refuses what this node could not run: nodes of one queue are alike. Raises as `settle` does."""
        capabilities, faults = self._capabilities(), Faults()
        for index, each in enumerate(programs):
            try:
                settle(each.program, capabilities)
            except InvalidArgument as error:
                for found in error.violations:
                    faults.add(found.field.replace("program", f"programs[{index}]", 1), found.description)
        faults.raise_if_any()


class NoBatches(Batches):
    """Of a node without a queue: every call raises FailedPrecondition, which names the settings that are missing."""

    def __init__(self, missing: Sequence[str]) -> None:
        self._reason = (
            f"this node takes no stored batches: start it with {' and '.join(missing)} set; StreamExecute works"
        )

    async def create(
        self,
        programs: Sequence[NewProgram],
        caller: str = "",
        priority: Priority = Priority.NORMAL,
        request_id: str = "",
    ) -> Batch:
        raise FailedPrecondition(self._reason)

    async def get(self, id: str, caller: str = "") -> Batch:
        raise FailedPrecondition(self._reason)

    async def page(self, page_size: int, page_token: str, caller: str = "") -> Page[Batch]:
        raise FailedPrecondition(self._reason)

    async def cancel(self, id: str, caller: str = "") -> Batch:
        raise FailedPrecondition(self._reason)

    async def delete(self, id: str, caller: str = "") -> None:
        raise FailedPrecondition(self._reason)

    def watch(self, id: str, caller: str = "") -> AsyncIterator[Progress]:
        raise FailedPrecondition(self._reason)


def _check(programs: Sequence[NewProgram], request_id: str) -> None:
    faults = Faults()
    faults.required("programs", programs)
    fits = len(request_id) <= _MAX_REQUEST_ID and "\0" not in request_id
    faults.unless(fits, "request_id", f"must have at most {_MAX_REQUEST_ID} characters, and no NUL")
    faults.raise_if_any()


def _fingerprint(programs: Sequence[NewProgram], priority: Priority) -> str:
    """Over bytes, which `Request.of` does not take."""
    digest = hashlib.sha256(priority.name.encode())
    for each in programs:
        digest.update(len(each.content).to_bytes(8))
        digest.update(each.content)
    return digest.hexdigest()
