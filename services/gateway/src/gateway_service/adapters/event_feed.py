"""What other services tell of on the Redis stream `events`."""

from collections.abc import Sequence
from datetime import timedelta

import redis.asyncio

from gateway_service.domain.webhooks.event import Event, Kind
from ratchet.event.v1 import event_pb2
from ratchet_kit.events import EventReader, Received
from ratchet_kit.times import timestamp_from_proto

GROUP = "gateway-webhooks"
COUNT = 100
NOUNS = {"trainer": "run", "eval": "evaluation", "registry": "version"}
"""By the services' names: how the types of their events begin."""


class RedisFeed:
    """One group for all gateways: each event goes to one of them, which stores it for all."""

    def __init__(self, redis: redis.asyncio.Redis, consumer: str) -> None:
        self._reader = EventReader(redis, GROUP, consumer)
        self._read: Sequence[Received] = ()

    async def read(self, block: timedelta) -> Sequence[Event]:
        self._read = await self._reader.read(COUNT, block)
        found = [event_of_message(one.event) for one in self._read]
        return [event for event in found if event is not None]

    async def ack(self) -> None:
        await self._reader.ack(self._read)


def event_of_message(message: event_pb2.Event) -> Event | None:
    """None for what webhooks are not told of: a run's steps, say."""
    name = f"{NOUNS.get(message.service, '')}.{message.state.lower()}"
    if name not in set(Kind):
        return None
    time = timestamp_from_proto(message.create_time)
    return Event(message.id, Kind(name), time, message.resource, dict(message.attributes))
