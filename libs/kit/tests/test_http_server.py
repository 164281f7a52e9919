import asyncio
import socket
import time
from contextlib import asynccontextmanager, suppress
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


@asynccontextmanager
async def served(app):
    stop = asyncio.Event()
    server = HttpServer(app, "127.0.0.1", 0, timedelta(seconds=1), silence=timedelta(seconds=1))
    serving = asyncio.create_task(server.run(stop))
    yield int(server.url.rpartition(":")[2])
    stop.set()
    await serving


async def echo(scope, receive, send):
    body = b""
    while (message := await receive()).get("more_body"):
        body += message["body"]
    body += message.get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def refuse(scope, receive, send):
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def end_of(reader, trickle=None):
    """Whether the server ends the connection within a few seconds; it is sent a byte now and then meanwhile."""
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(5):
            reading = asyncio.create_task(reader.read())
            while not reading.done():
                await asyncio.wait([reading], timeout=0.2)
                if trickle:
                    trickle.write(b"x")
    return reading.done()


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"POST / HT",
        b"POST / HTTP/1.1\r\nhost: x\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\nx",
    ],
)
async def test_who_does_not_send_a_whole_request_holds_no_connection(begin):
    async with served(echo) as port:
        silent, slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in (silent, slow):
            writer.write(begin)
        ended = await asyncio.gather(end_of(silent[0]), end_of(*slow))
    assert all(ended)


async def test_nor_after_an_answer_to_a_part_of_one():
    async with served(refuse) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\nx")
        assert b" 401 " in await reader.readline()
        assert await end_of(reader, writer)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b" 401 " in await reader.readline()
        writer.write(b"GET / HT")
        assert await end_of(reader)


async def test_who_takes_nothing_of_an_answer_holds_no_connection():
    left = asyncio.Event()

    async def endless(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            await while_connected(receive, pour(send))
        finally:
            left.set()

    async def pour(send):
        while True:
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
            await asyncio.sleep(0)

    async with served(endless) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        writer.transport.pause_reading()
        async with asyncio.timeout(10):
            await left.wait()
        writer.transport.abort()


async def test_a_request_that_comes_in_pieces_and_an_answer_that_takes_long_are_waited_for():
    async def slowly(scope, receive, send):
        await asyncio.sleep(1.5)  # its body is not read meanwhile
        await echo(scope, receive, send)

    body = bytes(1 << 20)
    async with served(slowly) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
            await asyncio.sleep(0.4)
            writer.write(body)
            assert b" 200 " in await reader.readline()
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(body)) == body
            await asyncio.sleep(0.4)
        writer.close()
