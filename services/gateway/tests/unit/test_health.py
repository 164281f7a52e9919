"""Whoever asks whether the gateway is ready."""

import asyncio
from datetime import timedelta

import pytest

from gateway_service.rest.health import LOOK, Readiness
from ratchet_kit.errors import Unavailable
from ratchet_testing import ManualClock

from ..world import World


class Database:
    def __init__(self) -> None:
        self.looks = 0
        self.is_away = False

    async def check(self) -> None:
        self.looks += 1
        await asyncio.sleep(0.001)
        if self.is_away:
            raise Unavailable("the database is away")


async def test_many_who_ask_cost_one_look_a_second(clock: ManualClock) -> None:
    database = Database()
    readiness = Readiness(database.check, clock)
    await asyncio.gather(*(readiness.check() for _ in range(100)))
    clock.advance(LOOK - timedelta(milliseconds=1))
    await readiness.check()
    assert database.looks == 1
    clock.advance(timedelta(milliseconds=1))
    await readiness.check()
    assert database.looks == 2


async def test_it_is_as_the_last_look_was(clock: ManualClock) -> None:
    database = Database()
    readiness = Readiness(database.check, clock)
    await readiness.check()
    database.is_away = True
    clock.advance(LOOK)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await readiness.check()
    database.is_away = False
    clock.advance(LOOK)
    await readiness.check()
    assert database.looks == 3


async def test_one_who_leaves_ends_no_look_of_others(clock: ManualClock) -> None:
    database = Database()
    readiness = Readiness(database.check, clock)
    leaves = asyncio.create_task(readiness.check())
    stays = asyncio.create_task(readiness.check())
    await asyncio.sleep(0)
    leaves.cancel()
    await stays
    assert database.looks == 1


async def test_probes_may_ask_by_head(world: World) -> None:
    async with world.http() as http:
        for path in ("/healthz", "/readyz"):
            reply = await http.head(path)
            assert reply.status_code == 200
