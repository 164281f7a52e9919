import asyncio
import os
import signal
import socket
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit import workers
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.settings import ServiceSettings
from ratchet_testing import free_port


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PAUSE", timedelta(milliseconds=10))


async def test_workers_that_cannot_start_end_the_service() -> None:
    port = free_port()

    def command(worker: int) -> list[str]:
        return [
            sys.executable,
            "-c",
            "import sys, time; sys.exit(1) if sys.argv[1] == '1' else time.sleep(60)",
            str(worker),
        ]

    async with asyncio.timeout(60):
        with pytest.raises(FailedPrecondition, match="worker 1 ended 3 times"):
            await workers.supervise(ServiceSettings(port=port), [port], 2, command)


async def test_a_port_in_use_is_said_before_anything_is_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FailedPrecondition, match=f"cannot listen on 127.0.0.1:{port}"):
            await workers.supervise(ServiceSettings(port=port), [port], 1, lambda worker: ["false"])


async def test_a_signal_ends_all_of_them(tmp_path: Path) -> None:
    port = free_port()

    def command(worker: int) -> list[str]:
        program = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(60)"
        return [sys.executable, "-c", program, str(tmp_path / str(worker))]

    async with asyncio.timeout(60):
        supervising = asyncio.create_task(workers.supervise(ServiceSettings(port=port), [port], 2, command))
        while len(os.listdir(tmp_path)) < 2:
            await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        await supervising
