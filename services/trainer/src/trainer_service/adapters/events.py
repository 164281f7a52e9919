"""Events on the Redis stream `events`."""

import redis.asyncio

from ratchet_kit.events import EventPublisher
from trainer_service.domain.run.run import Run


class RedisEvents:
    def __init__(self, redis: redis.asyncio.Redis) -> None:
        self._events = EventPublisher(redis, "trainer")

    async def changed(self, run: Run) -> None:
        await self._events.publish(
            f"runs/{run.id}",
            run.state.name,
            run.update_time,
            {
                "step": str(run.step),
                "attempt": str(run.attempt),
                "version": str(run.version or ""),
                "failure": run.failure.message if run.failure else "",
                "notice": run.notices[-1].message if run.notices and run.notices[-1].step == run.step else "",
            },
        )
