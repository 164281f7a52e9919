import asyncio
import socket
import time
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from ratchet_kit import http_protocol
from ratchet_kit.errors import Cancelled
from ratchet_kit.http_protocol import MAX_HEAD_BYTES
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


async def echo(scope, receive, send):
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    said = b"%s %s %s" % (scope["method"].encode(), scope["path"].encode(), body)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
OFFERS = {
    "length": b"POST /a HTTP/1.1\r\nHost: x\r\n" + OFFER + b"Content-Length: 6\r\n\r\n\r\n\r\nab",
    "chunks": b"POST /a HTTP/1.1\r\nHost: x\r\n"
    + OFFER
    + b"Transfer-Encoding: chunked\r\n\r\n6\r\n\r\n\r\nab\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("kind", OFFERS)
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_an_offer_of_another_protocol_loses_no_body(kind, size):
    """Each request of Java's client to http:// has one, of HTTP/2 (uvicorn's issue 2722)."""
    port, stop = free_port(), asyncio.Event()
    serving = asyncio.create_task(HttpServer(echo, "127.0.0.1", port, timedelta(seconds=1)).run(stop))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    socket_offer = b"GET /b HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    data = OFFERS[kind] * 2 + socket_offer + b"GET /c HTTP/1.1\r\n\r\n"
    for place in range(0, len(data), size):
        writer.write(data[place : place + size])
        await writer.drain()
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        for said in (b"POST /a \r\n\r\nab",) * 2 + (b"GET /b ", b"GET /c "):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(len(said)) == said
        writer.write(b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()
    stop.set()
    await serving


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
async def serving(app):
    port, stop = free_port(), asyncio.Event()
    server = HttpServer(app, "127.0.0.1", port, timedelta(seconds=1))
    running = asyncio.create_task(server.run(stop))
    try:
        yield port
    finally:
        stop.set()
        await running


async def reads_and_answers(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await two_pieces(scope, receive, send)


async def said(port: int, *pieces: bytes, until: float = 10) -> bytes:
    """What comes back until the server closes the connection, which it must."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), until)
    except ConnectionError:
        return b""
    finally:
        writer.close()


LINES = b"".join(b"x-%d: y\r\n" % number for number in range(500))
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /", b"a" * 4096),
        (b"GET / HTTP/1.1\r\nx: ", b"a" * 4096),
        (b"GET / HTTP/1.1\r\n", LINES),
        (CHUNKED + b"1\r\na\r\n0\r\n", LINES),
        (CHUNKED + b"1\r\na\r\n0\r\nx: ", b"a" * 4096),
        (CHUNKED + b"1;x=", b"a" * 4096),
    ],
)
async def test_what_has_no_end_is_not_read_for_long(start, more):
    rounds = 2_000_000 // len(more)
    async with serving(reads_and_answers) as port:
        answer = await said(port, start, *[more] * rounds)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


async def test_a_long_body_in_many_small_chunks_is_read():
    body = b"1\r\na\r\n" * (MAX_HEAD_BYTES // 3)
    async with serving(reads_and_answers) as port:
        assert (await said(port, CHUNKED.replace(b"host", b"connection: close\r\nhost"), body, b"0\r\n\r\n"))[
            -4:
        ] == b"abcd"


async def test_who_does_not_end_a_head_is_left(monkeypatch):
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.2)
    whole = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    async with serving(two_pieces) as port:
        assert await said(port) == b""
        assert await said(port, b"GET / HTTP/1.1\r\nhost:") == b""
        assert (await said(port, whole, b"GET / HTTP/1.1\r\nhost:")).endswith(b"abcd")


async def test_the_rest_of_an_answered_request_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(http_protocol, "REST_SECONDS", 0.2)
    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n"
    async with serving(two_pieces) as port:
        assert (await said(port, head, b"a" * 1000)).endswith(b"abcd")


async def test_a_connection_is_kept_between_requests(monkeypatch):
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(http_protocol, "REST_SECONDS", 0.2)
    async with serving(reads_and_answers) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody")
            await reader.readuntil(b"abcd")
            await asyncio.sleep(0.3)
        writer.close()


async def test_who_does_not_end_a_body_is_left(monkeypatch):
    monkeypatch.setattr(http_protocol, "BODY_SECONDS", 0.5)
    left = asyncio.Event()

    async def reads(scope, receive, send):
        try:
            await reads_and_answers(scope, receive, send)
        finally:
            left.set()

    async with serving(reads) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")
        with suppress(ConnectionError):
            async with asyncio.timeout(10):
                while not left.is_set():
                    writer.write(b"a")  # a little now and then
                    await asyncio.sleep(0.1)
                assert await reader.read() == b""
        writer.close()


async def test_who_takes_nothing_of_an_answer_is_left(monkeypatch):
    monkeypatch.setattr(http_protocol, "STALL_SECONDS", 0.5)
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

    async with serving(endless) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        writer.transport.pause_reading()
        async with asyncio.timeout(10):
            await left.wait()
        writer.transport.abort()


async def test_who_is_waited_for_is_not_left(monkeypatch):
    for name in ("BODY_SECONDS", "STALL_SECONDS"):
        monkeypatch.setattr(http_protocol, name, 3)

    async def slowly(scope, receive, send):
        await asyncio.sleep(4)  # its body is not read meanwhile
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message.get("body", b"")
        await asyncio.sleep(4)  # nor is anything answered
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    body = bytes(1 << 20)
    async with serving(slowly) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
            await asyncio.sleep(0.3)
            writer.write(body)
            assert b" 200 " in await reader.readline()
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(body)) == body
        writer.close()


async def test_who_leaves_is_heard_of_also_where_a_next_request_waits():
    asked, heard = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send):
        asked.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        heard.set()

    port, stop = free_port(), asyncio.Event()
    server = HttpServer(app, "127.0.0.1", port, timedelta(seconds=1))
    serving = asyncio.create_task(server.run(stop))
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 3)
    await asked.wait()
    writer.close()
    try:
        async with asyncio.timeout(5):
            await heard.wait()
    finally:
        stop.set()
        await serving


async def test_the_end_loses_no_request_on_a_connection_that_is_kept():
    port, stop = free_port(), asyncio.Event()
    server = HttpServer(two_pieces, "127.0.0.1", port, timedelta(seconds=10))
    serving = asyncio.create_task(server.run(stop))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        answers.append(await reader.readuntil(b"abcd"))
        stop.set()
        await asyncio.sleep(0.2)  # idle
    assert [b"connection: close" in one for one in answers] == [False, True]
    assert not await reader.read()
    writer.close()
    await asyncio.wait_for(serving, 10)
