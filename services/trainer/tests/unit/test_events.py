"""Events on a stream that is slow now and then."""

import asyncio
import json
from typing import Any

from trainer_service.adapters.events import RedisEvents


class SlowAtFirst:
    """As far as a stream that is published to needs a Redis."""

    def __init__(self) -> None:
        self.delays = [0.05]
        self.events: list[Any] = []

    def register_script(self, script: str) -> None:
        pass

    async def xadd(self, key: str, fields: dict[str, str], maxlen: int) -> str:
        if self.delays:
            await asyncio.sleep(self.delays.pop())
        self.events.append(json.loads(fields["event"]))
        return "1-1"


async def test_they_are_there_in_the_order_in_which_they_happened(trainer: Any, make_spec: Any) -> None:
    redis = SlowAtFirst()
    events = RedisEvents(redis)  # type: ignore[arg-type]
    queued = await trainer.create("r1", make_spec())
    started = queued.start(trainer.clock.now())
    await asyncio.gather(events.changed(queued), events.changed(started))
    assert [event["state"] for event in redis.events] == ["QUEUED", "STARTING"]
