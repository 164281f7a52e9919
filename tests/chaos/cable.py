"""A network between two processes: passes on what they send, until it stands still, is slow, breaks, or loses all."""

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, TypeVar

T = TypeVar("T")
CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)


class Mode(Enum):
    THROUGH = auto()
    STILL = auto()
    """Nothing is passed on, and nothing is lost."""
    LOSING = auto()
    """What is sent goes nowhere. Connections on which that happened are reset at the end of it."""
    CUT = auto()
    """Connections are reset, and new ones refused."""


class Cable:
    """Leads from a port of its own to another one of this machine. Each method may be called from any thread.

    To several it is a load balancer: each connection goes to the next of them that takes it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *to: int) -> None:
        self._loop = loop
        self._to = deque(to)
        self._mode = Mode.THROUGH
        self._delay = 0.0
        self._passing = asyncio.Event()
        self._passing.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def mend(self) -> None:
        """As if nothing had been."""
        self._run(self._turn(Mode.THROUGH))

    def stand_still(self) -> None:
        self._run(self._turn(Mode.STILL))

    def lose(self) -> None:
        self._run(self._turn(Mode.LOSING))

    def cut(self) -> None:
        self._run(self._turn(Mode.CUT))

    def slow_down(self, seconds: float) -> None:
        """What is sent arrives so much later."""
        self._run(self._turn(Mode.THROUGH, seconds))

    def break_connections(self) -> None:
        """All that are there now; new ones are made at once."""
        self._run(self._reset())

    # In the loop

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._reset()

    async def _turn(self, mode: Mode, delay: float = 0.0) -> None:
        before, self._mode, self._delay = self._mode, mode, delay
        if mode is Mode.STILL:
            self._passing.clear()
        else:
            self._passing.set()
        if mode is Mode.CUT:
            await self.close()
        elif before is Mode.CUT:
            await self.open()
        elif before is Mode.LOSING:
            await self._reset()

    async def _reset(self) -> None:
        for writer in list(self._open):
            connection: socket.socket | None = writer.get_extra_info("socket")
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(len(self._to)):
            self._to.rotate(-1)
            try:
                there, back = await asyncio.open_connection("127.0.0.1", self._to[0])
                break
            except OSError:
                continue
        else:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        try:
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        except OSError:
            pass
        finally:
            for one in (writer, back):
                self._open.discard(one)
                one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._passing.wait()
            if self._delay:
                await asyncio.sleep(self._delay)
            if self._mode is not Mode.LOSING:
                writer.write(data)
                await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(10)


class Network:
    """The cables of a test."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.cables: list[Cable] = []

    def cable(self, *to: int) -> Cable:
        made = Cable(self._loop, *to)
        asyncio.run_coroutine_threadsafe(made.open(), self._loop).result(10)
        self.cables.append(made)
        return made


@contextmanager
def network() -> Iterator[Network]:
    """In a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="network")
    thread.start()
    made = Network(loop)
    try:
        yield made
    finally:
        for cable in made.cables:
            asyncio.run_coroutine_threadsafe(cable.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
