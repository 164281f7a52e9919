import asyncio
import subprocess

from ratchet_kit import streams
from ratchet_kit.embedded import redis_server_command
from ratchet_kit.process import ProcessGroup
from ratchet_testing import free_port


async def test_a_killed_server_comes_back_with_its_data(tmp_path):
    port = free_port()
    client = streams.connect(f"redis://127.0.0.1:{port}/0")
    for expected in (None, "kept"):
        server = await ProcessGroup.start(redis_server_command(port, tmp_path), stdout=subprocess.DEVNULL)
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await client.get("key") == expected
                    break
                except (ConnectionError, OSError, streams.ConnectionError):
                    await asyncio.sleep(0.05)
        await client.set("key", "kept")
        server._signal(9)
        await server.stop()
    await client.aclose()
