"""The relay of one exec: connections that its workspace's programs make to the relay's port, carried as pieces.

It accepts and never dials: programs reach what the exec's caller connects them to, and nothing else. Whoever reads
slowly slows its own connection: each side has WINDOW bytes at most that the other has not taken.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field

from sandbox_service.domain.workspace import Relayed

MOST = 32
"""Connections at a time; more of them wait in the backlog, and then for the kernel."""
WINDOW = 128 << 10
_CHUNK, _BACKLOG = 32 << 10, 16


@dataclass(eq=False, slots=True)
class _Connection:
    """Mutable. `room`: what may still be sent to the caller. `waiting`: what the program has not taken, at most WINDOW;
    None is the end."""

    room: int = WINDOW
    more_room: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    bytes_waiting: int = 0

    def put(self, piece: Relayed) -> None:
        self.room = min(WINDOW, self.room + piece.taken_bytes)
        self.more_room.set()
        self.bytes_waiting += len(piece.data)
        if piece.data and self.bytes_waiting <= WINDOW:
            self.waiting.put_nowait(piece.data)
        if piece.closed or self.bytes_waiting > WINDOW:
            self.waiting.put_nowait(None)


class Relay:
    def __init__(self, door: socket.socket, changed: asyncio.Event) -> None:
        """`door`: the workspace's, which listens while this is open. `changed`: set when there is something to take."""
        self._door, self._changed = door.dup(), changed
        self._open: dict[int, _Connection] = {}
        self._pieces: deque[tuple[Relayed, asyncio.Event]] = deque()
        self._slots = asyncio.Semaphore(MOST)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, pieces: AsyncIterator[Relayed]) -> asyncio.Task[None]:
        """Before the program. `pieces`: the caller's. Returns the task that hands them on: where they end, so do the
        connections."""
        self._door.listen(_BACKLOG)
        handing = self._begin(self._hand_on(pieces))
        accepting = self._begin(self._accept())
        handing.add_done_callback(lambda _: accepting.cancel())
        return handing

    def take(self) -> Relayed | None:
        """The next piece for the caller, if there is one."""
        if not self._pieces:
            return None
        piece, taken = self._pieces.popleft()
        taken.set()
        if piece.closed:
            self._slots.release()
        return piece

    async def stop(self) -> None:
        """Cuts all connections off, and refuses new ones."""
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._door.close()

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        return task

    async def _accept(self) -> None:
        number = 0
        while True:
            await self._slots.acquire()
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(self._door)
            except OSError:  # too many open files
                self._slots.release()
                await asyncio.sleep(1)
                continue
            number += 1
            self._open[number] = _Connection()
            task = self._begin(self._carry(number, self._open[number], connection))
            task.add_done_callback(self._tasks.discard)

    async def _hand_on(self, pieces: AsyncIterator[Relayed]) -> None:
        async for piece in pieces:
            if one := self._open.get(piece.connection):
                one.put(piece)
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        for one in self._open.values():
            one.waiting.put_nowait(None)

    def _send(self, piece: Relayed) -> asyncio.Event:
        """Returns what is set once it is taken: each way of a connection has one piece here at a time."""
        taken = asyncio.Event()
        self._pieces.append((piece, taken))
        self._changed.set()
        return taken

    async def _carry(self, number: int, one: _Connection, connection: socket.socket) -> None:
        connection.setblocking(False)
        ways = [asyncio.create_task(way(number, one, connection)) for way in (self._out, self._in)]
        try:
            self._send(Relayed(number))
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            connection.close()
            del self._open[number]
            self._send(Relayed(number, closed=True))

    async def _out(self, number: int, one: _Connection, connection: socket.socket) -> None:
        """From the program, until it closes its side."""
        while True:
            while not one.room:
                one.more_room.clear()
                await one.more_room.wait()
            data = await asyncio.get_running_loop().sock_recv(connection, min(_CHUNK, one.room))
            if not data:
                return
            one.room -= len(data)
            await self._send(Relayed(number, data)).wait()

    async def _in(self, number: int, one: _Connection, connection: socket.socket) -> None:
        """To the program, until the caller closes its side."""
        while (data := await one.waiting.get()) is not None:
            await asyncio.get_running_loop().sock_sendall(connection, data)
            one.bytes_waiting -= len(data)
            await self._send(Relayed(number, taken_bytes=len(data))).wait()
