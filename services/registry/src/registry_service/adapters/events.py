"""Events on the Redis stream `events`."""

import redis.asyncio

from ratchet_kit.events import EventPublisher
from registry_service.domain.version import Version


class RedisEvents:
    def __init__(self, redis: redis.asyncio.Redis) -> None:
        self._events = EventPublisher(redis, "registry")

    async def ended(self, version: Version) -> None:
        await self._events.publish(
            f"models/{version.ref.model}/versions/{version.ref.number}",
            version.state.name,
            version.end_time or version.create_time,
            {
                "version": str(version.ref),
                "policy_id": version.policy_id,
                "failure": version.failure.message if version.failure else "",
            },
        )
