"""What keeps services alive."""

import asyncio
import os
from pathlib import Path

from ratchet_local.home import Home
from ratchet_local.ports import Ports
from ratchet_local.services import Service
from ratchet_local.supervisor import Supervisor
from ratchet_testing.ports import free_port


async def test_a_service_that_dies_is_started_again_also_when_no_state_can_be_written(
    home: Home, tmp_path: Path
) -> None:
    """As on a disk that is full."""
    home.state_file.with_suffix(".tmp").mkdir()
    starts = tmp_path / "starts"
    starts.mkdir()
    dies = Service("dies", ["sh", "-c", f"mkdir {starts}/$$"], dict(os.environ), free_port())
    stop = asyncio.Event()
    supervising = asyncio.create_task(Supervisor(home, Ports({}), [dies]).run(stop))
    async with asyncio.timeout(60):
        while len(os.listdir(starts)) < 2:
            await asyncio.sleep(0.1)
    stop.set()
    await supervising
