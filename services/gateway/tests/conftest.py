from collections.abc import AsyncIterator

import httpx
import pytest

from ratchet_testing import ManualClock

from .world import World


@pytest.fixture
async def world(clock: ManualClock) -> AsyncIterator[World]:
    world = World(clock)
    await world.start()
    yield world
    await world.stop()


@pytest.fixture
async def http(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.http() as client:
        yield client
