import asyncio
import os
import signal
import stat
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from redis.exceptions import AuthenticationError, RedisError

from ratchet_kit import streams
from ratchet_kit.embedded import redis_server_command
from ratchet_kit.errors import Unavailable
from ratchet_kit.process import ProcessGroup
from ratchet_testing import free_port


async def start(port: int, folder: Path) -> ProcessGroup:
    return await ProcessGroup.start(redis_server_command(port, folder), stdout=subprocess.DEVNULL)


async def test_a_password_is_needed_and_not_seen(tmp_path):
    port = free_port()
    command = redis_server_command(port, tmp_path, password="secret-of-the-test")
    assert not [word for word in command if "secret" in word]
    assert stat.S_IMODE((tmp_path / "password.conf").stat().st_mode) == 0o600
    async with await ProcessGroup.start(command, stdout=subprocess.DEVNULL):
        stranger, ours = (streams.connect(f"redis://{who}127.0.0.1:{port}/0") for who in ("", ":secret-of-the-test@"))
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await ours.ping()
                    break
                except RedisError:
                    await asyncio.sleep(0.05)
        with pytest.raises(AuthenticationError):
            await stranger.flushall()
        await stranger.aclose()
        await ours.aclose()


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
