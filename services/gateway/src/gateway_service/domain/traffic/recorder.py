"""Writes the request log in batches, so that no answer waits for the database."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway_service.domain.traffic.left_out import LeftOut, left_out
from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.record import CompletionRecord
from gateway_service.domain.traffic.redaction import Redaction
from gateway_service.domain.traffic.version_meter import VersionMeter
from ratchet_kit import metrics
from ratchet_kit.errors import InvalidArgument, NotFound
from ratchet_kit.ids import time_of
from ratchet_kit.logs import get_logger
from ratchet_kit.retry import TRANSIENT
from ratchet_kit.work import every, surviving

log = get_logger(__name__)
_set_aside = metrics.counter("gateway_records_set_aside", "Records of completions that the database cannot hold")
_dropped = metrics.counter("gateway_records_dropped", "Records of completions that a full buffer had no room for")

MAX_BUFFERED = 10_000
MAX_BUFFERED_CHARACTERS = 32 << 20
"""Of material: what comes when there are so many is recorded without it."""
BATCH = 500
FLUSH_EVERY = timedelta(seconds=0.5)
ON_ITS_WAY = timedelta(seconds=10)
"""How long a record may be with the gateway that answered, before it is in the store: on a machine that is too busy,
seconds."""
LATELY = timedelta(hours=1)
"""Longer than an answer takes: the record of an older one is stored, or there is none."""
LOOK_SECONDS, MAX_LOOK_SECONDS = 0.1, 1.0
"""Each look waits half as long again as the one before."""


class Recorder:
    """Buffers records and stores them twice a second.

    SIGTERM loses nothing; a kill loses what is buffered. While the database is away the newest 10,000 are kept. What
    is dropped is counted and logged. Material is redacted before it is stored, and nobody waits for that.
    """

    def __init__(self, store: CompletionLog, redaction: Redaction, *, flush_every: timedelta = FLUSH_EVERY) -> None:
        self._store = store
        self._flush_every = flush_every
        self._redaction = redaction
        self._buffer: deque[CompletionRecord] = deque()
        self._characters = 0
        """Of material that is buffered or being stored."""
        self._dropped = 0
        """Since the last flush."""
        self._writing = asyncio.Lock()
        self._meter = VersionMeter()

    def record(self, record: CompletionRecord) -> None:
        self._meter.count(record)
        characters = _characters([record])
        if self._characters + characters > MAX_BUFFERED_CHARACTERS and characters:
            left_out(LeftOut.NO_ROOM)
            record = replace(record, material=None)
        else:
            self._characters += characters
        self._buffer.append(record)
        self._drop(len(self._buffer) - MAX_BUFFERED)

    async def flush(self) -> None:
        """Stores what is buffered. Raises Unavailable; nothing is lost then, and no record holds up the others."""
        async with self._writing:
            if self._dropped:
                log.error("completions.dropped", records=self._dropped)
                self._dropped = 0
            while self._buffer:
                batch: Sequence[CompletionRecord] = [
                    self._buffer.popleft() for _ in range(min(BATCH, len(self._buffer)))
                ]
                try:
                    batch = await self._redacted(batch)
                    await self._store_batch(batch)
                except BaseException:
                    self._put_back(batch)
                    raise
                self._characters -= _characters(batch)

    async def stored(self, completion_id: str) -> CompletionRecord:
        """Waits for one that this gateway or another has not stored yet. Raises NotFound, Unavailable."""
        await self.flush()
        made = time_of(completion_id)
        patience = ON_ITS_WAY if made and datetime.now(UTC) - made < LATELY else timedelta(0)
        end, pause = time.monotonic() + patience.total_seconds(), LOOK_SECONDS
        while True:
            try:
                return await self._store.get(completion_id)
            except NotFound:
                if time.monotonic() >= end:
                    raise
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, MAX_LOOK_SECONDS)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; then stores the rest."""
        await every(self._flush_every, stop, self.flush, name="store completions")
        with surviving("store completions"):
            await self.flush()
        if self._buffer:
            log.error("completions.lost", records=len(self._buffer))

    async def _store_batch(self, batch: Sequence[CompletionRecord]) -> None:
        try:
            await self._store.append(batch)
        except TRANSIENT:
            raise
        except Exception:
            if not await self._store_each(batch):
                raise

    async def _store_each(self, batch: Sequence[CompletionRecord]) -> bool:
        """One by one: those that cannot be held are set aside. False when it is not for the records: none was stored,
        and none was refused for what it is."""
        refused = dict[str, Exception]()
        for record in batch:
            try:
                await self._store.append([record])
            except TRANSIENT:
                raise
            except Exception as error:  # noqa: BLE001 (whatever it is, it is looked at below)
                refused[record.id] = error
        is_theirs = len(refused) < len(batch) or any(isinstance(e, InvalidArgument) for e in refused.values())
        if is_theirs:
            for id, reason in refused.items():
                log.error("completion.set_aside", completion_id=id, reason=str(reason))
                _set_aside.inc()
        return is_theirs

    async def _redacted(self, batch: Sequence[CompletionRecord]) -> Sequence[CompletionRecord]:
        redacted = await self._redaction.records(batch)
        self._characters += _characters(redacted) - _characters(batch)
        return redacted

    def _put_back(self, batch: Sequence[CompletionRecord]) -> None:
        """In front of what came meanwhile; the oldest are dropped where that is more than there is room for."""
        self._buffer.extendleft(reversed(batch))
        self._drop(len(self._buffer) - MAX_BUFFERED)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            oldest = self._buffer.popleft()
            self._dropped += 1
            _dropped.inc()
            if oldest.material is not None:
                self._characters -= oldest.material.characters
                left_out(LeftOut.NO_ROOM)


def _characters(records: Sequence[CompletionRecord]) -> int:
    return sum(record.material.characters for record in records if record.material is not None)
