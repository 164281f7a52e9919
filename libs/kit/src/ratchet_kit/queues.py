"""The queues of work on Redis Streams (extra `redis`)."""

from collections.abc import Sequence
from datetime import timedelta

from ratchet_kit.streams import Message, Stream
from ratchet_kit.work import Delivery, Priority

_ID = "id"


class StreamQueue:
    """`ratchet_kit.work.WorkQueue` on a stream whose messages each hold one id."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def publish(self, id: str, priority: Priority = Priority.NORMAL) -> None:
        await self._stream.publish({_ID: id}, priority)

    async def depth(self) -> int:
        return sum((await self._stream.depth()).values())

    async def resume(self) -> Sequence[Delivery]:
        return [_delivery(message) for message in await self._stream.resume()]

    async def take(self, block: timedelta) -> Delivery | None:
        messages = await self._stream.read(1, block)
        return _delivery(messages[0]) if messages else None

    async def extend(self, delivery: Delivery) -> None:
        await self._stream.extend(_message(delivery))

    async def ack(self, delivery: Delivery) -> None:
        await self._stream.ack(_message(delivery))

    async def dead_letter(self, delivery: Delivery, reason: str) -> None:
        await self._stream.dead_letter(_message(delivery), reason)

    async def held(self) -> frozenset[str]:
        return frozenset([payload[_ID] async for payload in self._stream.payloads() if _ID in payload])


def _delivery(message: Message) -> Delivery:
    return Delivery(message.payload.get(_ID, ""), message.priority, message, message.deliveries)


def _message(delivery: Delivery) -> Message:
    assert isinstance(delivery.receipt, Message)
    return delivery.receipt
