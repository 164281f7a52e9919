"""The caller's side of a relay: what programs of an exec connect to is connected to one address here, and no other."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from ratchet.sandbox.v1 import workspace_pb2 as pb

URL = "http://127.0.0.1"
"""Where programs in the workspace find it: port 80."""
_WINDOW, _CHUNK = 128 << 10, 32 << 10  # as RelayPiece says


@dataclass(eq=False, slots=True)
class _Connection:
    """Mutable. `room`: what the program may still be sent."""

    room: int = _WINDOW
    more_room: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)


class Relay:
    """For one exec. Close it at the end: it cuts off what is still open."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._open: dict[int, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pieces: asyncio.Queue[pb.RelayPiece | None] = asyncio.Queue(8)
        self._closed = False

    async def pieces(self) -> AsyncIterator[pb.RelayPiece]:
        """To send to the node, until this is closed."""
        while piece := await self._pieces.get():
            yield piece

    def take(self, piece: pb.RelayPiece) -> None:
        """A piece of the node's."""
        number = piece.connection
        one = self._open.get(number)
        if one is None:
            if piece.closed or piece.data or piece.taken_bytes:
                return  # of one that is closed here
            one = self._open[number] = _Connection()
            task = asyncio.create_task(self._carry(number, one))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        one.room += piece.taken_bytes
        one.more_room.set()
        if piece.data:
            one.waiting.put_nowait(piece.data)
        if piece.closed:
            one.waiting.put_nowait(None)

    async def close(self) -> None:
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while not self._pieces.empty():
            self._pieces.get_nowait()
        self._pieces.put_nowait(None)

    async def _carry(self, number: int, one: _Connection) -> None:
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port)
            ways = [
                asyncio.create_task(self._to_program(number, one, reader)),
                asyncio.create_task(self._from_program(number, one, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                writer.transport.abort()
        except OSError:
            pass  # nobody is there: the program sees a connection that ends
        finally:
            del self._open[number]
            if not self._closed:
                await self._pieces.put(pb.RelayPiece(connection=number, closed=True))

    async def _to_program(self, number: int, one: _Connection, reader: asyncio.StreamReader) -> None:
        while True:
            while not one.room:
                one.more_room.clear()
                await one.more_room.wait()
            data = await reader.read(min(_CHUNK, one.room))
            if not data:
                return
            one.room -= len(data)
            await self._pieces.put(pb.RelayPiece(connection=number, data=data))

    async def _from_program(self, number: int, one: _Connection, writer: asyncio.StreamWriter) -> None:
        while (data := await one.waiting.get()) is not None:
            writer.write(data)
            await writer.drain()
            await self._pieces.put(pb.RelayPiece(connection=number, taken_bytes=len(data)))
