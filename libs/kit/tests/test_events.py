"""Events over a real Redis: who publishes, and groups that read."""

from datetime import UTC, datetime, timedelta

import pytest
import redis.asyncio

from ratchet_kit.events import NAME, EventPublisher, EventReader

pytestmark = pytest.mark.integration
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NO_TIME = timedelta(0)


@pytest.fixture(autouse=True)
async def empty(redis: redis.asyncio.Redis) -> None:
    await redis.flushall()


async def told(redis: redis.asyncio.Redis, *states: str) -> None:
    for state in states:
        await EventPublisher(redis, "eval").publish("evaluations/1", state, NOW, {"model": "starter@1"})


async def test_each_group_gets_what_was_told_before_it_came(redis: redis.asyncio.Redis) -> None:
    await told(redis, "RUNNING", "SUCCEEDED")
    for group in ("one", "two"):
        received = await EventReader(redis, group, "me").read(10, NO_TIME)
        assert [one.event.state for one in received] == ["RUNNING", "SUCCEEDED"]
        assert (received[0].event.service, received[0].event.attributes["model"]) == ("eval", "starter@1")
        assert received[0].event.id != received[1].event.id


async def test_what_is_acknowledged_is_not_given_again(redis: redis.asyncio.Redis) -> None:
    await told(redis, "SUCCEEDED")
    reader = EventReader(redis, "one", "me")
    await reader.ack(await reader.read(10, NO_TIME))
    await told(redis, "FAILED")
    assert [one.event.state for one in await reader.read(10, NO_TIME)] == ["FAILED"]


async def test_what_is_no_event_is_left_out(redis: redis.asyncio.Redis) -> None:
    await redis.xadd(f"{NAME}:normal", {"event": "no JSON"})
    await redis.xadd(f"{NAME}:normal", {"other": "field"})
    await told(redis, "SUCCEEDED")
    reader = EventReader(redis, "one", "me")
    assert [one.event.state for one in await reader.read(10, NO_TIME)] == ["SUCCEEDED"]
    pending = await redis.xpending(f"{NAME}:normal", "one")
    assert pending["pending"] == 1
