"""Keeps what requests need in memory: keys, releases under way, champions and aliases."""

import asyncio
from datetime import timedelta

from gateway_service.domain.keys.known_keys import KnownKeys
from gateway_service.domain.keys.quotas import Quotas
from gateway_service.domain.releases.known_releases import KnownReleases
from ratchet_kit.work import every

MONTHS = timedelta(seconds=5)
"""Between two looks at the answers of the month."""
WORKS = timedelta(minutes=1)
"""The same, at its runs and evaluations."""


class Refresher:
    """Reads again, a few times a second, what another gateway, another worker or the registry may have changed.

    What this process changes itself is in its memory at once. While a store cannot be reached, what was known holds.
    """

    def __init__(self, keys: KnownKeys, releases: KnownReleases, quotas: Quotas, interval: timedelta) -> None:
        self._keys = keys
        self._quotas = quotas
        self._releases = releases
        self._interval = interval

    async def refresh(self) -> None:
        """Raises Unavailable."""
        await self._keys.refresh()
        await self._releases.refresh()
        await self._quotas.refresh()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set."""
        async with asyncio.TaskGroup() as tasks:  # each by itself: none waits for another's fault
            tasks.create_task(every(self._interval, stop, self._keys.refresh, name="refresh keys"))
            tasks.create_task(every(self._interval, stop, self._releases.refresh, name="refresh releases"))
            tasks.create_task(every(MONTHS, stop, self._quotas.refresh, name="refresh answers of the month"))
            tasks.create_task(every(WORKS, stop, self._quotas.refresh_works, name="refresh works of the month"))
