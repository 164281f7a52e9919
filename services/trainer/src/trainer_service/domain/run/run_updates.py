"""Wakes those who wait for a run to change in this process. What other processes change is found by polling."""

import asyncio
from collections import defaultdict
from datetime import timedelta

from trainer_service.domain.run.run import RunId


class RunUpdates:
    def __init__(self) -> None:
        self._waiting: dict[RunId, set[asyncio.Event]] = defaultdict(set)

    def announce(self, id: RunId) -> None:
        for event in self._waiting.get(id, ()):
            event.set()

    async def wait(self, id: RunId, at_most: timedelta) -> None:
        """Returns at the next change, or after `at_most`."""
        event = asyncio.Event()
        self._waiting[id].add(event)
        try:
            async with asyncio.timeout(at_most.total_seconds()):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting[id].discard(event)
            if not self._waiting[id]:
                del self._waiting[id]
