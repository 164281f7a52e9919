"""Writes the request log in batches, so that no answer waits for the database."""

import asyncio
from collections import deque
from datetime import timedelta

from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.record import CompletionRecord
from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock

log = get_logger(__name__)

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
        pruned = None
        while not stop.is_set():
            try:
                await self.flush()
                now = self._clock.now()
                if pruned is None or now - pruned >= self._prune_every:
                    await self._store.prune(now - self._keep_texts, now - self._keep_records)
                    pruned = now
            except RatchetError as error:
                log.warning("completions.not_stored", reason=error.message, buffered=len(self._buffer))
            try:
                await asyncio.wait_for(stop.wait(), self._flush_every.total_seconds())
            except TimeoutError:
                pass
        await self.flush()
