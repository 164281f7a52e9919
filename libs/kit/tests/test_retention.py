"""What is old goes, once an hour."""

import asyncio
from datetime import datetime, timedelta

from ratchet_kit.errors import Unavailable
from ratchet_kit.retention import Kept, tidy


async def test_what_was_kept_for_long_enough_is_removed(clock):
    stop, asked = asyncio.Event(), list[tuple[str, datetime]]()

    async def remove_logs(before: datetime) -> int:
        asked.append(("logs", before))
        stop.set()
        return 3

    async def remove_batches(before: datetime) -> int:
        asked.append(("batches", before))
        raise Unavailable("the database is away")

    kept = [
        Kept("batches", timedelta(days=7), remove_batches),
        Kept("texts", timedelta(), remove_logs),
        Kept("logs", timedelta(days=1), remove_logs),
    ]
    await asyncio.wait_for(tidy(kept, clock, stop), 5)
    assert asked == [("batches", clock.now() - timedelta(days=7)), ("logs", clock.now() - timedelta(days=1))]
