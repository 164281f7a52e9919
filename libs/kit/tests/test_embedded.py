import asyncio
import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

from ratchet_kit import streams
from ratchet_kit.embedded import redis_server_command
from ratchet_kit.errors import Unavailable
from ratchet_kit.process import ProcessGroup
from ratchet_testing import free_port


async def start(port: int, folder: Path) -> ProcessGroup:
    return await ProcessGroup.start(redis_server_command(port, folder), stdout=subprocess.DEVNULL)


async def test_a_queue_survives_a_killed_server(tmp_path):
    port = free_port()
    client = streams.connect(f"redis://127.0.0.1:{port}/0")
    queue = streams.Stream(client, "jobs", "workers", "a")

    async def patiently(action):
        async with asyncio.timeout(10):
            while True:
                try:
                    return await action()
                except Unavailable:
                    await asyncio.sleep(0.05)

    async with await start(port, tmp_path) as server:
        await patiently(lambda: queue.publish({"job": "1"}))
        await queue.publish({"job": "2"})
        [first] = await queue.read(1, timedelta(0))
        waiting = asyncio.create_task(patiently(lambda: queue.read(2, timedelta(seconds=5))))
        os.kill(server.pid, signal.SIGKILL)
        await server.wait()
    async with await start(port, tmp_path):
        [second] = await waiting
        await queue.ack(first, second)
        assert [first.payload, second.payload] == [{"job": "1"}, {"job": "2"}]
        assert sum((await queue.depth()).values()) == 0
    await client.aclose()
