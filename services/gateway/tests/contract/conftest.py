import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from ratchet_kit.http_server import HttpServer

from ..world import World


@pytest.fixture
async def url(world: World) -> AsyncIterator[str]:
    """Of /v1, behind a socket, for clients that bring their own HTTP."""
    server = HttpServer(world.gateway.http, "127.0.0.1", 0, timedelta(seconds=2))
    stop = asyncio.Event()
    running = asyncio.create_task(server.run(stop))
    try:
        yield f"{server.url}/v1"
    finally:
        stop.set()
        await running
