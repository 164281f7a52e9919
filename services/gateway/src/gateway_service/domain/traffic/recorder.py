"""Writes the request log in batches, so that no answer waits for the database."""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from gateway_service.domain.traffic.ports import CompletionLog
from gateway_service.domain.traffic.record import CompletionRecord
from ratchet_kit import metrics
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.logs import get_logger
from ratchet_kit.retry import TRANSIENT
from ratchet_kit.times import Clock
from ratchet_kit.work import every, surviving

log = get_logger(__name__)
_set_aside = metrics.counter("gateway_records_set_aside", "Records of completions that the database cannot hold")

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
        """Stores what is buffered. Raises Unavailable; nothing is lost then, and no record holds up the others."""
        async with self._writing:
            while self._buffer:
                batch = [self._buffer.popleft() for _ in range(min(BATCH, len(self._buffer)))]
                try:
                    await self._store_batch(batch)
                except BaseException:
                    self._put_back(batch)
                    raise

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; then stores the rest."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(every(self._flush_every, stop, self.flush, name="store completions"))
            tasks.create_task(every(self._prune_every, stop, self._prune, name="prune completions"))
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

    def _put_back(self, batch: Sequence[CompletionRecord]) -> None:
        """The newest of the batch: more came meanwhile, and a full deque would drop one of those for each."""
        room = MAX_BUFFERED - len(self._buffer)
        self._buffer.extendleft(reversed(batch[len(batch) - room if room < len(batch) else 0 :]))

    async def _prune(self) -> None:
        now = self._clock.now()
        await self._store.prune(now - self._keep_texts, now - self._keep_records)
