"""Events on the Redis stream `events`."""

import redis.asyncio

from eval_service.domain.evaluation import Evaluation
from ratchet_kit.events import EventPublisher


class RedisEvents:
    def __init__(self, redis: redis.asyncio.Redis) -> None:
        self._events = EventPublisher(redis, "eval")

    async def ended(self, evaluation: Evaluation) -> None:
        await self._events.publish(
            f"evaluations/{evaluation.id}",
            evaluation.state.name,
            evaluation.end_time or evaluation.create_time,
            {
                "model": str(evaluation.spec.model),
                "failure": evaluation.failure.message if evaluation.failure else "",
            },
        )
