"""For how long things are kept: each has one setting, `keep_<what>`. What is older is looked for once an hour."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ratchet_kit import metrics
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from ratchet_kit.work import every, surviving

log = get_logger(__name__)
_removed = metrics.counter("removed", "Old things that were removed, by what they are", ("what",))

LOOK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Kept:
    what: str
    """For the log and the metric: "batches"."""
    keep: timedelta
    """After its end; 0 keeps it for good."""
    remove: Callable[[datetime], Awaitable[int]]
    """Removes what ended before that time, and says how many there were."""


def removed(what: str, count: int, **about: object) -> None:
    """Counts and logs things that were removed; `about`: why, or of what."""
    _removed.labels(what).inc(count)
    log.info("retention.removed", what=what, count=count, **about)


async def tidy(kept: Sequence[Kept], clock: Clock, stop: asyncio.Event, look: timedelta = LOOK) -> None:
    """Removes what is old, until `stop` is set. What cannot be removed now is tried again, and holds up nothing."""

    async def step() -> None:
        for one in kept:
            if one.keep:
                with surviving(f"remove {one.what}"):
                    before = clock.now() - one.keep
                    count = await one.remove(before)
                    if count:
                        removed(one.what, count, before=before.isoformat())

    await every(look, stop, step, name="tidy")
