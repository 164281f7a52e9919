"""The caller's side of a relay, with a server on loopback: bytes both ways, and connections that end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet_environments.relay import Relay


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    asked = await reader.read(1 << 16)
    writer.write(asked.upper() if asked != b"much" else bytes(1 << 20))
    await writer.drain()
    writer.close()


@asynccontextmanager
async def _relay() -> AsyncIterator[tuple[Relay, AsyncIterator[pb.RelayPiece]]]:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        relay = Relay(*server.sockets[0].getsockname())
        try:
            yield relay, relay.pieces()
        finally:
            await relay.close()


async def test_a_connection_is_carried_until_it_ends() -> None:
    async with _relay() as (relay, pieces):
        relay.take(pb.RelayPiece(connection=7))
        relay.take(pb.RelayPiece(connection=7, data=b"abc"))
        sent = [await anext(pieces) for _ in range(3)]
    assert {one.connection for one in sent} == {7}
    assert sum(one.taken_bytes for one in sent) == 3
    assert b"".join(one.data for one in sent) == b"ABC"
    assert sent[-1].closed


async def test_nothing_is_sent_beyond_the_window_until_it_is_taken() -> None:
    async with _relay() as (relay, pieces):
        relay.take(pb.RelayPiece(connection=1))
        relay.take(pb.RelayPiece(connection=1, data=b"much"))
        size = 0
        while size < 128 << 10:
            size += len((await anext(pieces)).data)
        assert size == 128 << 10
        relay.take(pb.RelayPiece(connection=1, taken_bytes=10))
        assert len((await anext(pieces)).data) == 10


async def test_where_nobody_listens_the_connection_ends() -> None:
    relay = Relay("127.0.0.1", 1)
    relay.take(pb.RelayPiece(connection=1))
    assert (await anext(relay.pieces())) == pb.RelayPiece(connection=1, closed=True)
    await relay.close()
