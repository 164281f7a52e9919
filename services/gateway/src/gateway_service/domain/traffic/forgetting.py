"""Tells the data sets who is forgotten, until they know it."""

import asyncio
from datetime import timedelta

from gateway_service.domain.traffic.ports import DataSets, ExchangeStore
from ratchet_kit.work import every

INTERVAL = timedelta(seconds=2)
"""Between two looks at whom the data sets do not know of."""


class Forgetting:
    """Reads from the database who is to be told of, so that it outlives a gateway, and a registry that is away. Several
    gateways may tell the same."""

    def __init__(self, store: ExchangeStore, sets: DataSets) -> None:
        self._store = store
        self._sets = sets

    async def tell(self) -> None:
        """Raises Unavailable."""
        while units := await self._store.unconfirmed():
            await self._sets.forget(units)
            await self._store.confirm(units)

    async def run(self, stop: asyncio.Event) -> None:
        await every(INTERVAL, stop, self.tell, name="tell data sets who is forgotten")
