"""What requests hold of a process's memory while they wait or are answered: bounded in bytes, not only in number."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta

from ratchet_kit.errors import ResourceExhausted

SMALL = 64 << 10
"""Bytes that a request may always have: how many of these there are is bounded elsewhere."""
AT_ONCE, TURN = 16, timedelta(seconds=0.5)
"""Requests that are read at a time, as nobody knows their size before. One that takes longer to come makes way."""
RETRY_AFTER = timedelta(seconds=1)


class Held:
    """For one door."""

    def __init__(self, most: int) -> None:
        """`most`: bytes."""
        self._most = most
        self.bytes = 0
        self.turns = asyncio.Semaphore(AT_ONCE)

    def demand_room(self, size: int) -> None:
        """Raises ResourceExhausted where others hold so much that `size` bytes more are too many."""
        if size > SMALL and self.bytes and self.bytes + size > self._most:
            raise ResourceExhausted(
                f"the requests that wait here hold {self.bytes >> 20} MiB, and {self._most >> 20} MiB is the most: no "
                f"room for {-(-size >> 20)} MiB more",
                retry_after=RETRY_AFTER,
            )

    @contextmanager
    def one(self) -> Iterator["Share"]:
        """For one request: what it holds is given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            share.hold(0)


class _Turn:
    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns: asyncio.Semaphore | None = turns

    def end(self) -> None:
        turns, self._turns = self._turns, None
        if turns:
            turns.release()


class Share:
    """What one request holds."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._bytes = 0

    def demand(self, size: int) -> None:
        """Holds `size` bytes, in place of what it held. Raises ResourceExhausted, and then holds nothing."""
        self.hold(0)
        self._held.demand_room(size)
        self.hold(size)

    async def read(self, messages: AsyncIterator[bytes]) -> bytes:
        """The first message of a call. Raises ResourceExhausted, and StopAsyncIteration where there is none."""
        await self._held.turns.acquire()
        turn = _Turn(self._held.turns)
        timer = asyncio.get_running_loop().call_later(TURN.total_seconds(), turn.end)
        try:
            data = await anext(messages)
            try:
                self.demand(len(data))
            except ResourceExhausted:
                del data  # not until the error is forgotten
                raise
            return data
        finally:
            timer.cancel()
            turn.end()

    async def read_on(self, messages: AsyncIterator[bytes]) -> bytes:
        """A later one, in place of the one before. Raises StopAsyncIteration."""
        self.hold(0)
        data = await anext(messages)
        self.hold(len(data))
        return data

    def hold(self, size: int) -> None:
        """As `demand`, of a request that was let in: however many there are."""
        self._held.bytes += size - self._bytes
        self._bytes = size
