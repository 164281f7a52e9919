"""Background work: removes what unfinished uploads left behind."""

import asyncio
from datetime import timedelta

from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from registry_service.domain.catalog import Catalog

log = get_logger(__name__)


class Sweeper:
    def __init__(self, catalog: Catalog, interval: timedelta, expiry: timedelta) -> None:
        self._catalog = catalog
        self._interval = interval
        self._expiry = expiry

    async def run(self, stop: asyncio.Event) -> None:
        """Sweeps at the start and each interval until told to stop. A sweep that fails is tried again at the next."""
        while not stop.is_set():
            try:
                removed = await self._catalog.sweep(self._expiry)
                if removed:
                    log.info("uploads.swept", uploads=removed)
            except RatchetError as error:
                log.warning("uploads.sweep_failed", error=error.message)
            try:
                await asyncio.wait_for(stop.wait(), self._interval.total_seconds())
            except TimeoutError:
                continue
