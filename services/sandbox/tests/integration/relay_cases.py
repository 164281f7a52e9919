"""What a workspace's relay must stand."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from ratchet_kit.errors import FailedPrecondition
from sandbox_service.domain.levels import Level
from sandbox_service.domain.workspace import Command, ExecEnd, Output, Relayed, WorkspaceLimits

from .workspace_lab import MIB, Done, Lab, case


@dataclass
class Caller:
    """The caller of an exec with a relay: answers what it is sent by `answer`, and takes it if it `takes`. One that
    `waits` sends no more than may be on the way. `most`: open at a time."""

    answer: Callable[[bytes], list[bytes]]
    takes: bool = True
    waits: bool = True
    unsent: defaultdict[int, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    room: defaultdict[int, int] = field(default_factory=lambda: defaultdict(lambda: WINDOW))
    open: set[int] = field(default_factory=set)
    most: int = 0
    bytes: int = 0
    queue: asyncio.Queue[Relayed | None] = field(default_factory=asyncio.Queue)

    async def pieces(self) -> AsyncIterator[Relayed]:
        while piece := await self.queue.get():
            yield piece

    def take(self, piece: Relayed) -> None:
        (self.open.discard if piece.closed else self.open.add)(piece.connection)
        self.most, self.bytes = max(self.most, len(self.open)), self.bytes + len(piece.data)
        if piece.data and self.takes:
            self.queue.put_nowait(Relayed(piece.connection, taken_bytes=len(piece.data)))
            for data in self.answer(piece.data):
                self.unsent[piece.connection] += data
        self.room[piece.connection] += piece.taken_bytes
        self._send(piece.connection)

    def _send(self, connection: int) -> None:
        unsent = self.unsent[connection]
        while size := min(len(unsent), 32 << 10, self.room[connection] if self.waits else len(unsent)):
            self.room[connection] -= size
            self.queue.put_nowait(Relayed(connection, bytes(unsent[:size])))
            del unsent[:size]


async def relayed(lab: Lab, id: str, source: str, caller: Caller, seconds: float = 20) -> Done:
    command = Command(("python", "-c", source), wall_time=timedelta(seconds=seconds), relay=True)
    out = {False: b"", True: b""}
    async for event in lab.workspaces.exec(id, command, caller.pieces(), "me"):
        if isinstance(event, Relayed):
            caller.take(event)
        elif isinstance(event, Output):
            out[event.error] += event.data
        else:
            return Done(event, out[False].decode(), out[True].decode())
    raise AssertionError("no exit")


WINDOW = 128 << 10
_DIAL = "import os, socket, time, threading\ndef dial(): return socket.create_connection(('127.0.0.1', 80), 5)\n"


@case()
async def a_relay_carries_connections(lab: Lab) -> None:
    id, caller = await lab.new(), Caller(lambda data: [data.upper()])
    talk = (
        "c = dial()\nt = threading.Thread(target=lambda: c.sendall(b'a' * 400_000)); t.start()\nn = 0\n"
        "while n < 400_000 and (some := c.recv(65536)): n += len(some)\nprint(n)"
    )
    if lab.level is Level.L1:
        refused = await lab.refuses(relayed(lab, id, talk, caller), FailedPrecondition)
        assert "no network of its own" in refused.message
        return
    done = await relayed(lab, id, _DIAL + talk, caller)
    assert done.out == "400000\n", done
    assert caller.bytes == 400_000
    other = await lab.new()
    assert "ConnectionRefused" in (await lab.python(other, _DIAL + "dial()")).err


@case(Level.L2)
async def a_relay_is_closed_by_its_caller(lab: Lab) -> None:
    id, caller = await lab.new(), Caller(lambda _: [])
    caller.queue.put_nowait(None)
    assert "Error" in (await relayed(lab, id, _DIAL + "dial().send(b'x'); dial().recv(1)[0]", caller)).err


@case(Level.L2)
async def a_relay_has_so_many_connections(lab: Lab) -> None:
    id, caller = await lab.new(), Caller(lambda data: [data])
    many = (
        "kept = []\n"
        "try:\n    while len(kept) < 500: kept.append(socket.socket()); kept[-1].settimeout(0.2); "
        "kept[-1].connect(('127.0.0.1', 80))\n"
        "except OSError: pass\n"
        "for one in kept: one.close()\n"
        "c = dial()\nc.send(b'x')\nprint(c.recv(1))"
    )
    done = await relayed(lab, id, _DIAL + many, caller)
    assert done.out == "b'x'\n", done
    assert 0 < caller.most <= 32


@case(Level.L2)
async def a_relay_holds_so_many_bytes(lab: Lab) -> None:
    """Also where the caller takes nothing, and where the program takes nothing of a caller that sends without end."""
    id, caller = await lab.new(), Caller(lambda _: [], takes=False)
    flood = (
        "c = dial()\nc.settimeout(0.5)\nn = 0\n"
        "try:\n    while True: n += c.send(bytes(65536))\n"
        "except OSError: print(n < 2 << 20)"
    )
    assert (await relayed(lab, id, _DIAL + flood, caller)).out == "True\n"
    assert caller.bytes <= 128 << 10
    caller = Caller(lambda _: [bytes(1 << 16)] * 64, waits=False)
    deaf = "c = dial()\nc.send(b'x')\ntime.sleep(0.5)\nn = 0\nwhile some := c.recv(65536): n += len(some)\nprint(n)"
    done = await relayed(lab, id, _DIAL + deaf.replace("while some", "c.settimeout(5)\nwhile some"), caller)
    assert not done.out or int(done.out) < 1 << 20, done


@case(Level.L2)
async def a_relay_ends_with_its_exec(lab: Lab) -> None:
    id, caller = await lab.new(keep=True), Caller(lambda data: [data])
    daemon = (
        "kept = dial()\nif os.fork() == 0:\n    os.setsid()\n    found = []\n"
        "    while not os.path.exists('over'): time.sleep(0.01)\n"
        "    try: kept.send(b'x'); found.append(kept.recv(1))\n    except OSError: found.append('cut')\n"
        "    try: dial(); found.append('open')\n    except OSError: found.append('refused')\n"
        "    open('part', 'w').write(str(found))\n    os.rename('part', 'found')\n    os._exit(0)\n"
    )
    assert (await relayed(lab, id, _DIAL + daemon, caller)).passed
    look = (
        "import os, time\nopen('over', 'w').close()\nwhile not os.path.exists('found'): time.sleep(0.05)\n"
        "print(open('found').read())"
    )
    assert (await lab.must(id, look)) in ("['cut', 'refused']\n", "[b'', 'refused']\n")
    assert (await relayed(lab, id, _DIAL + "c = dial(); c.send(b'x'); print(c.recv(1))", caller)).out == "b'x'\n"


@case(Level.L2)
async def a_relay_cannot_be_taken_over(lab: Lab) -> None:
    id, caller = await lab.new(), Caller(lambda data: [data])
    take = (
        "found = []\nfor place in (('127.0.0.1', 80), ('0.0.0.0', 80), ('127.0.0.2', 80)):\n"
        "    s = socket.socket(); s.setsockopt(1, 2, 1)\n"
        "    try: s.setsockopt(1, 15, 1); s.bind(place); s.listen(); found.append(place)\n    except OSError: pass\n"
        "for level, option in ((6, 31), (6, 19), (0, 64), (0, 1)):\n"
        "    try: s.setsockopt(level, option, b'tls\\0'); found.append(option)\n"
        "    except PermissionError: pass\n"
        "print(found)"
    )
    assert (await relayed(lab, id, _DIAL + take, caller)).out == "[]\n"


@case(Level.L2)
async def sockets_cost_their_memory(lab: Lab) -> None:
    id = await lab.new(limits=WorkspaceLimits(timedelta(seconds=60), 96 * MIB, 32, 16 * MIB))
    fill = (
        "import socket, time\ns = socket.create_server(('127.0.0.1', 4000), backlog=64)\nkept = []\n"
        "while len(kept) < 900:\n    a = socket.create_connection(('127.0.0.1', 4000)); b, _ = s.accept()\n"
        "    a.setblocking(False); kept += [a, b]\n"
        "    try:\n        while True: a.send(bytes(65536))\n    except BlockingIOError: pass\n"
        "time.sleep(5)"
    )
    assert (await lab.python(id, fill)).exit.end is ExecEnd.MEMORY
