"""Events on the Redis stream `events`."""

import asyncio
from datetime import timedelta

import redis.asyncio
from google.protobuf import json_format

from ratchet.event.v1 import event_pb2
from ratchet_kit.ids import new_id
from ratchet_kit.streams import Stream
from ratchet_kit.times import timestamp_to_proto
from ratchet_kit.work import surviving
from trainer_service.domain.run import Run

NAME = "events"
MAX_LENGTH = 10_000
LIMIT = timedelta(seconds=2)


class RedisEvents:
    """Each event is one message with one field, `event`: an Event of ratchet.event.v1 as protobuf JSON."""

    def __init__(self, redis: redis.asyncio.Redis) -> None:
        self._stream = Stream(redis, NAME, "trainer", "trainer", shared=True, max_length=MAX_LENGTH)
        self._one_at_a_time = asyncio.Lock()
        """So that they are there in the order in which they happened."""

    async def changed(self, run: Run) -> None:
        event = event_pb2.Event(
            id=new_id("event"),
            create_time=timestamp_to_proto(run.update_time),
            service="trainer",
            resource=f"runs/{run.id}",
            state=run.state.name,
            attributes={
                "step": str(run.step),
                "attempt": str(run.attempt),
                "version": str(run.version or ""),
                "failure": run.failure.message if run.failure else "",
                "notice": run.notices[-1].message if run.notices and run.notices[-1].step == run.step else "",
            },
        )
        # The change has happened: a failure to announce it is logged, and takes a limited time.
        with surviving("publish event", run_id=run.id, state=run.state.name):
            async with asyncio.timeout(LIMIT.total_seconds()), self._one_at_a_time:
                await self._stream.publish({"event": json_format.MessageToJson(event, indent=None)})
