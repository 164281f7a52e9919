import asyncio
import socket
import time
from datetime import timedelta

import pytest

from ratchet_kit.errors import Cancelled
from ratchet_kit.http_server import HttpServer, while_connected
from ratchet_testing import free_port

ROUNDS = 40


async def two_pieces(scope, receive, send):
    """Answers in two packets, as every answer with a head and a body may be."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"ab", "more_body": True})
    await send({"type": "http.response.body", "body": b"cd"})


async def test_no_answer_waits_for_a_delayed_acknowledgement():
    port, stop = free_port(), asyncio.Event()
    server = HttpServer(two_pieces, "127.0.0.1", port, timedelta(seconds=1))
    serving = asyncio.create_task(server.run(stop))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    slow = 0
    for _ in range(ROUNDS):
        start = time.perf_counter()
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"abcd")
        slow += time.perf_counter() - start > 0.035
    writer.close()
    stop.set()
    await serving
    assert slow < ROUNDS / 2, "each answer waits 40 ms for the client's acknowledgement of its begin"


async def test_work_ends_when_its_caller_has_gone():
    ended = asyncio.Event()

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def gone():
        return {"type": "http.disconnect"}

    with pytest.raises(Cancelled):
        await while_connected(gone, work())
    assert ended.is_set()
    assert not asyncio.current_task().cancelling()


async def test_the_result_of_work_whose_caller_stays():
    async def receive():
        await asyncio.Event().wait()

    async def work():
        await asyncio.sleep(0)
        return 7

    assert await while_connected(receive, work()) == 7


async def test_who_cancels_the_caller_itself_is_heard():
    async def receive():
        await asyncio.Event().wait()

    task = asyncio.create_task(while_connected(receive, asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
