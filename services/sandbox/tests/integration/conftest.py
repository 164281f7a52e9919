"""One executor with two lanes for all modules that only grade, and the HTTP door of SandboxFusion's clients."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta

import httpx
import pytest
import pytest_asyncio

from ratchet_kit.held import Held
from ratchet_kit.http_server import HttpServer
from sandbox_service.adapters.aside.process import AsideProcess
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.convert import Bounds
from sandbox_service.domain.ports import Executor
from sandbox_service.domain.sandbox import Sandbox, do_here
from sandbox_service.fusion import app
from sandbox_service.fusion.row_folder import RowFolder
from sandbox_service.fusion.running import Runner
from sandbox_service.settings import Settings
from sandbox_service.unpacking import Unpacker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor() -> AsyncIterator[LanePool]:
    options = LaneOptions(lanes=2, idle_extra=timedelta(seconds=0.5))
    async with LanePool(options) as executor:
        yield executor


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def aside() -> AsyncIterator[AsideProcess]:
    async with AsideProcess() as aside:
        yield aside


@pytest.fixture
def sandbox(executor: LanePool, aside: AsideProcess) -> Sandbox:
    return Sandbox(executor, queue_limit=1000, aside=aside)


@contextlib.contextmanager
def _service(**environment: str) -> Iterator[str]:
    """`python -m sandbox_service.main` with its HTTP door open; gives the door's URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings: Mapping[str, str] = {
        "RATCHET_SANDBOX_PORT": "0",
        "RATCHET_SANDBOX_HTTP_PORT": str(port),
        "RATCHET_SANDBOX_LANES": "2",
        "RATCHET_SANDBOX_LOG_LEVEL": "WARNING",
    }
    command = [sys.executable, "-m", "sandbox_service.main"]
    process = subprocess.Popen(command, env={**os.environ, **settings, **environment})
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 60
        while True:
            try:
                assert httpx.get(f"{url}/v1/ping", timeout=5).json() == "pong"
                break
            except httpx.TransportError:
                assert process.poll() is None, "the service ended"
                assert time.monotonic() < until, "the service does not answer"
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        assert process.wait(30) == 0


@contextlib.contextmanager
def _door_over(executor: Executor, queue_limit: int = 100, most_waiting: int = 100) -> Iterator[str]:
    """The real door over any executor, in a thread of its own; gives its URL."""
    settings = Settings(port=0)
    bounds = Bounds(settings.max_limits, settings.max_source_bytes)
    runner = Runner(Sandbox(executor, queue_limit), bounds, Unpacker(do_here), most_waiting)
    server = HttpServer(
        app.build(runner, RowFolder(None), Held(settings.max_held_bytes)), "127.0.0.1", 0, timedelta(seconds=2)
    )
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(server.run(stop),))
    thread.start()
    try:
        yield server.url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


@pytest.fixture(scope="session")
def fusion_service() -> Callable[..., AbstractContextManager[str]]:
    return _service


@pytest.fixture(scope="session")
def door_over() -> Callable[..., AbstractContextManager[str]]:
    return _door_over
