"""A queue of work in memory, whose leases and outages are a test's to arrange."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count

from ratchet_kit.errors import Aborted, Unavailable
from ratchet_kit.work import Delivery, Priority


class MemoryQueue:
    """A `ratchet_kit.work.WorkQueue` for one process."""

    def __init__(self) -> None:
        self.is_away = False
        """Every call raises Unavailable."""
        self.killed: list[Delivery] = []
        """The deliveries that `resume` gives."""
        self.dead: dict[str, str] = {}
        """Dead letters: id -> reason."""
        self._waiting: list[Delivery] = []
        self._leased: dict[object, Delivery] = {}
        self._receipts = count(1)
        self._published = asyncio.Event()

    @property
    def ids(self) -> list[str]:
        """The ids that wait, in the order in which they are taken."""
        return [delivery.id for delivery in sorted(self._waiting, key=_order)]

    @property
    def leased(self) -> list[str]:
        return [delivery.id for delivery in self._leased.values()]

    def flush(self) -> None:
        """As FLUSHALL does: nothing is left, and whoever holds a lease has lost it."""
        self._waiting.clear()
        self._leased.clear()

    def expire(self) -> None:
        """All leases run out: what they were of waits again."""
        expired = [replace(delivery, times=delivery.times + 1) for delivery in self._leased.values()]
        self._waiting = [*expired, *self._waiting]
        self._leased.clear()
        self._published.set()

    async def publish(self, id: str, priority: Priority = Priority.NORMAL) -> None:
        self._reach()
        self._waiting.append(Delivery(id, priority, next(self._receipts)))
        self._published.set()

    async def resume(self) -> Sequence[Delivery]:
        self._reach()
        self._leased |= {delivery.receipt: delivery for delivery in self.killed}
        killed, self.killed = self.killed, []
        return killed

    async def take(self, block: timedelta) -> Delivery | None:
        self._reach()
        if not self._waiting:
            self._published.clear()
            try:
                await asyncio.wait_for(self._published.wait(), block.total_seconds())
            except TimeoutError:
                return None
        self._reach()
        if not self._waiting:
            return None
        delivery = min(self._waiting, key=_order)
        self._waiting.remove(delivery)
        self._leased[delivery.receipt] = delivery
        return delivery

    async def extend(self, delivery: Delivery) -> None:
        self._reach()
        if delivery.receipt not in self._leased:
            raise Aborted(f"the lease of {delivery.id} is lost")

    async def ack(self, delivery: Delivery) -> None:
        self._reach()
        self._leased.pop(delivery.receipt, None)

    async def dead_letter(self, delivery: Delivery, reason: str) -> None:
        await self.ack(delivery)
        self.dead[delivery.id] = reason

    async def held(self) -> frozenset[str]:
        self._reach()
        return frozenset(delivery.id for delivery in [*self._waiting, *self._leased.values()])

    def _reach(self) -> None:
        if self.is_away:
            raise Unavailable("the queue is away")


def _order(delivery: Delivery) -> tuple[int, int]:
    assert isinstance(delivery.receipt, int)
    return list(Priority).index(delivery.priority), delivery.receipt
