"""Keeps generations (readers) and weight updates (writers) apart: no completion mixes two sets of weights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ReadWriteLock:
    """Held by any number of readers or by one writer. A waiting writer goes first, so updates are not starved."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._readers = 0
        self._writing = False
        self._waiting_writers = 0

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._writing and not self._waiting_writers)
            self._readers += 1
        try:
            yield
        finally:
            # No await between here and the count: a cancelled task still leaves.
            self._readers -= 1
            await self._announce()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        self._waiting_writers += 1
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._writing and not self._readers)
                self._writing = True
        finally:
            self._waiting_writers -= 1
            if not self._writing:
                await self._announce()
        try:
            yield
        finally:
            self._writing = False
            await self._announce()

    async def _announce(self) -> None:
        async with self._changed:
            self._changed.notify_all()
