"""How the processes of the cage speak: with the service, with one another, and the frames that report on a program.

The service's side of it is adapters/lanes/protocol.py.
"""

import _socket
import json
import marshal
import os
import struct
from typing import Any

RESULT_FD = 3
CHANNEL_FD = 4
LENGTH = struct.Struct("!I")


class Frames:
    """The way out: a pipe that the keeper collects without looking inside.

    A child that the program forks and lets run on comes by here as well: it reports nothing.
    """

    def __init__(self, descriptor: int, nonce: str) -> None:
        self._descriptor, self._process = descriptor, os.getpid()
        self._start = f'["{nonce}", "'

    def send(self, kind: str, *more: object) -> None:
        """JSON is put together here where that's easy: its encoder would touch a dozen pages more."""
        rest = "".join([f", {item}" if type(item) is int else f", {json.dumps(item)}" for item in more])
        if os.getpid() == self._process:
            write_all(self._descriptor, f'{self._start}{kind}"{rest}]\n'.encode())


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_exactly(descriptor: int, count: int) -> bytes:
    """Raises EOFError when the other side hung up."""
    data = os.read(descriptor, min(count, 1 << 20))
    if len(data) == count:  # as it is with most, and then there's one copy
        return data
    whole = bytearray(data)
    while data and len(whole) < count:
        data = os.read(descriptor, min(count - len(whole), 1 << 20))
        whole += data
    if len(whole) < count:
        raise EOFError("the other side hung up")
    return bytes(whole)


def receive(descriptor: int) -> Any:
    """A header or a payload: a length, then as many bytes of marshal's. Raises EOFError when the service hung up."""
    (length,) = LENGTH.unpack(read_exactly(descriptor, LENGTH.size))
    return marshal.loads(read_exactly(descriptor, length))


def skip_to(connection: _socket.socket, mark: bytes) -> None:
    """Reads up to the mark that ends a payload: nothing but the mark where that was read, as it is with most.

    Raises EOFError as `receive` does.
    """
    before = read_exactly(connection.fileno(), len(mark))
    if before == mark:
        return
    while seen := connection.recv(1 << 16, _socket.MSG_PEEK):
        place = (before + seen).find(mark)
        connection.recv(len(seen) if place < 0 else place + len(mark) - len(before))
        if place >= 0:
            return
        before = (before + seen)[1 - len(mark) :]
    raise EOFError("the other side hung up")


def frame(message: dict[str, Any]) -> bytes:
    data = json.dumps(message).encode()
    return LENGTH.pack(len(data)) + data


def send(connection: _socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(frame(message))
