"""The service over scripted engines, with nothing left of it at a test's end."""

from collections.abc import AsyncIterator

import pytest

from ..world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.service() as world.policies:
        yield world
    assert all(engine.stopped for engine in world.engines.started)
    assert world.folders.held == []
    assert await world.journal.kept() == []
