"""RunQueue and the leases of workers, on the Redis stream `trainer.runs`."""

from datetime import timedelta
from typing import Any

import redis.asyncio
from redis.exceptions import ConnectionError, TimeoutError

from ratchet_kit.errors import Unavailable
from ratchet_kit.streams import Message, Stream
from ratchet_kit.work import Priority
from trainer_service.domain import spec
from trainer_service.domain.run import RunId

NAME = "trainer.runs"
GROUP = "trainer"
_FIELD = "run_id"


class RedisRunQueue:
    """Publishes run ids, and hands them to workers: `stream` is the queue as this process sees it."""

    def __init__(self, redis: redis.asyncio.Redis, consumer: str, lease: timedelta) -> None:
        self._redis = redis
        self.stream = Stream(redis, NAME, GROUP, consumer, lease=lease)

    async def put(self, id: RunId, priority: spec.Priority) -> None:
        await self.stream.publish({_FIELD: id}, Priority(priority.value))

    async def held(self) -> frozenset[RunId]:
        """What is acknowledged is deleted, so that the streams hold what waits and what is leased."""
        try:
            entries: list[Any] = []
            for priority in Priority:
                entries += await self._redis.xrange(f"{NAME}:{priority}") or []
        except (ConnectionError, TimeoutError) as error:
            raise Unavailable(f"Redis cannot be reached: {error}") from error
        return frozenset(RunId(payload[_FIELD]) for _, payload in entries if _FIELD in payload)


def run_of(message: Message) -> RunId | None:
    """None: the message is none of ours."""
    id = message.payload.get(_FIELD)
    return RunId(id) if id else None
