"""Events on the Redis stream `events` (extra `redis`): what services tell of, for whoever watches.

Each is one message with one field, `event`: an Event of ratchet.event.v1 as protobuf JSON. Delivery is at least once to
each group that reads; what is told of is in SQL, and an event that could not be published is not made up for.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import redis.asyncio
from google.protobuf import json_format

from ratchet.event.v1 import event_pb2
from ratchet_kit.ids import new_id
from ratchet_kit.streams import Message, Stream
from ratchet_kit.times import timestamp_to_proto
from ratchet_kit.work import surviving

NAME = "events"
MAX_LENGTH = 10_000
LIMIT = timedelta(seconds=2)
_FIELD = "event"


class EventPublisher:
    """What one service tells of."""

    def __init__(self, redis: redis.asyncio.Redis, service: str) -> None:
        self._stream = Stream(redis, NAME, service, service, shared=True, max_length=MAX_LENGTH)
        self._service = service
        self._one_at_a_time = asyncio.Lock()
        """So that they are there in the order in which they happened."""

    async def publish(self, resource: str, state: str, create_time: datetime, attributes: Mapping[str, str]) -> None:
        """Raises nothing: the change has happened, and a failure to announce it is logged, and takes a limited time."""
        event = event_pb2.Event(
            id=new_id("event"),
            create_time=timestamp_to_proto(create_time),
            service=self._service,
            resource=resource,
            state=state,
            attributes=attributes,
        )
        with surviving("publish event", resource=resource, state=state):
            async with asyncio.timeout(LIMIT.total_seconds()), self._one_at_a_time:
                await self._stream.publish({_FIELD: json_format.MessageToJson(event, indent=None)})


@dataclass(frozen=True, slots=True)
class Received:
    """An event that is this group's to handle until it is acknowledged."""

    event: event_pb2.Event
    message: Message


class EventReader:
    """The events as one group reads them: each goes to one of its consumers, and to another one where that one died
    before it acknowledged it. Every method raises Unavailable when Redis cannot be used."""

    def __init__(self, redis: redis.asyncio.Redis, group: str, consumer: str) -> None:
        self._stream = Stream(redis, NAME, group, consumer, shared=True)

    async def read(self, count: int, block: timedelta) -> Sequence[Received]:
        """Up to `count`, of all that are kept; none when there was none for `block`. What is no event is left out."""
        received = []
        for message in await self._stream.read(count, block):
            event = event_pb2.Event()
            with surviving("read event", message=message.id):
                try:
                    json_format.Parse(message.payload.get(_FIELD, ""), event, ignore_unknown_fields=True)
                except json_format.ParseError:
                    await self._stream.ack(message)
                    raise
                received.append(Received(event, message))
        return received

    async def ack(self, received: Sequence[Received]) -> None:
        """What came of these is stored: they are not given out again."""
        await self._stream.ack(*(one.message for one in received))
