"""Writes the request log in batches, so that no answer waits for the database."""

import asyncio
from collections import deque
from datetime import datetime, timedelta

from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.record import CompletionRecord
from ratchet_kit.times import Clock
from ratchet_kit.work import every

MAX_BUFFERED = 10_000
BATCH = 500


class Recorder:
    """Buffers records and stores them twice a second.

    SIGTERM loses nothing; a kill loses what is buffered. While the database is away the newest 10,000 are kept.
    """

    def __init__(
        self,
        store: CompletionLog,
        clock: Clock,
        keep_texts: timedelta,
        keep_records: timedelta,
        *,
        flush_every: timedelta = timedelta(seconds=0.5),
        prune_every: timedelta = timedelta(hours=1),
    ) -> None:
        """`keep_texts`: how long an unscored answer is kept; `keep_records`: how long the whole record is."""
        self._store = store
        self._clock = clock
        self._flush_every = flush_every
        self._keep_texts = keep_texts
        self._keep_records = keep_records
        self._prune_every = prune_every
        self._buffer: deque[CompletionRecord] = deque(maxlen=MAX_BUFFERED)
        self._writing = asyncio.Lock()
        self._pruned: datetime | None = None

    def record(self, record: CompletionRecord) -> None:
        self._buffer.append(record)

    async def flush(self) -> None:
        """Stores what is buffered. Raises Unavailable; nothing is lost then."""
        async with self._writing:
            while self._buffer:
                batch = [self._buffer.popleft() for _ in range(min(BATCH, len(self._buffer)))]
                try:
                    await self._store.append(batch)
                except BaseException:
                    self._buffer.extendleft(reversed(batch))
                    raise

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; then stores the rest."""
        await every(self._flush_every, stop, self._flush_and_prune, name="store completions")
        await self.flush()

    async def _flush_and_prune(self) -> None:
        await self.flush()
        now = self._clock.now()
        if self._pruned is None or now - self._pruned >= self._prune_every:
            await self._store.prune(now - self._keep_texts, now - self._keep_records)
            self._pruned = now
