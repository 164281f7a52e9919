"""Keeps weight updates and generations apart, so that no completion is made of two sets of weights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gate:
    """Any number may share it, or one has it alone. Who wants it alone goes first, so updates are not starved."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._sharing = 0
        self._alone = False
        self._waiting_alone = 0

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone and not self._waiting_alone)
            self._sharing += 1
        try:
            yield
        finally:
            # No await between here and the count: a cancelled task still leaves.
            self._sharing -= 1
            await self._announce()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        self._waiting_alone += 1
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._alone and not self._sharing)
                self._alone = True
        finally:
            self._waiting_alone -= 1
            if not self._alone:
                await self._announce()
        try:
            yield
        finally:
            self._alone = False
            await self._announce()

    async def _announce(self) -> None:
        async with self._changed:
            self._changed.notify_all()
