"""An event never fails, nor holds up, what it tells of: over a Redis that is brought into each state."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import redis.asyncio
from redis.exceptions import DataError

from ratchet_kit import streams
from ratchet_kit.events import NAME
from ratchet_testing.ports import free_port
from ratchet_testing.redis_server import redis_server
from trainer_service.adapters.events import RedisEvents
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, State, Step
from trainer_service.main import provision
from trainer_service.settings import Settings

pytestmark = pytest.mark.integration


@pytest.fixture
async def own_redis() -> AsyncIterator[redis.asyncio.Redis]:
    with redis_server() as url:
        client = streams.connect(url)
        yield client
        await client.aclose()


async def full(client: redis.asyncio.Redis) -> None:
    await client.config_set("maxmemory", 1)


async def a_replica(client: redis.asyncio.Redis) -> None:
    await client.execute_command("REPLICAOF", "127.0.0.1", free_port())  # type: ignore[no-untyped-call]


async def standing_still(client: redis.asyncio.Redis) -> None:
    await client.execute_command("CLIENT", "PAUSE", 60_000, "ALL")  # type: ignore[no-untyped-call]


async def of_another_kind(client: redis.asyncio.Redis) -> None:
    await client.set(f"{NAME}:normal", "somebody else's")


@pytest.mark.parametrize("state", [full, a_replica, standing_still, of_another_kind])
async def test_a_run_trains_to_its_end_whatever_becomes_of_its_events(
    trainer: Any, make_spec: Any, own_redis: redis.asyncio.Redis, state: Any
) -> None:
    ports = replace(trainer.ports, events=RedisEvents(own_redis))
    async with provision(Settings(), ports=ports, deadlines=trainer.deadlines) as service:
        run: Run = await trainer.create("r1", make_spec(steps=1))
        await state(own_redis)
        driving = asyncio.create_task(service.driver.drive(run.id))
        async with asyncio.timeout(60):
            while not trainer.jobs.submitted:
                await asyncio.sleep(0.01)
        now = trainer.clock.now()
        for report in (
            service.reports.started(run.id, 1),
            service.reports.step(run.id, Step(1, {}, "sha256:1", now, 1)),
            service.reports.checkpoint(run.id, 1, Checkpoint(1, "/exports/1", "sha256:1", now)),
            service.reports.finished(run.id, 1, None),
        ):
            async with asyncio.timeout(20):  # as long as the job waits for an answer
                await report
        trainer.jobs.end(run.id, 1)
        async with asyncio.timeout(60):
            await driving
    assert (await trainer.store.get(run.id)).state is State.SUCCEEDED


async def test_an_event_has_what_a_guard_said_at_its_step(
    trainer: Any, make_spec: Any, own_redis: redis.asyncio.Redis
) -> None:
    run: Run = await trainer.create("r1", make_spec())
    noticed = run.noticed("completions repeat themselves", trainer.clock.now(), "repetition")
    for changed in (run, noticed, replace(noticed, step=3)):
        await RedisEvents(own_redis).changed(changed)
    events = [json.loads(fields["event"]) for _, fields in await own_redis.xrange(f"{NAME}:normal")]
    assert [event["attributes"]["notice"] for event in events] == ["", "completions repeat themselves", ""]


async def test_a_fault_of_our_own_fails_nothing_either(
    trainer: Any, make_spec: Any, own_redis: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flawed(*_: Any, **__: Any) -> None:
        raise DataError("of no type that Redis takes")

    monkeypatch.setattr(own_redis, "xadd", flawed)
    await RedisEvents(own_redis).changed(await trainer.create("r1", make_spec()))
