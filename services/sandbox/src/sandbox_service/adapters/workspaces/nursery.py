"""The service's side of cage/workspace/nursery.py: one warm process for each runtime."""

import asyncio
import contextlib
import json
import os
import socket
import tempfile
from typing import Any

from ratchet_kit.errors import Unavailable
from ratchet_kit.logs import get_logger
from sandbox_service.adapters.lanes import cleanup, protocol
from sandbox_service.adapters.lanes.lane import CAGE, ENVIRONMENT, FLAGS
from sandbox_service.adapters.languages.environments import Environment

log = get_logger(__name__)


class Nursery:
    """`async with Nursery(...)`: up inside, and gone after, with all that it forked."""

    def __init__(self, environment: Environment, paths: tuple[str, ...], uid: int) -> None:
        """`paths`: what roots show beside the standard library. `uid`: one to try with what the kernel allows."""
        self._environment, self._paths, self._uid = environment, paths, uid
        self._gate = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._socket: socket.socket
        self._words: asyncio.Task[None] | None = None
        self._is_gone = False
        """Its end of the socket is closed; that its process has ended may be seen later."""
        self.refused = ""
        """The reason why its workspaces have no namespaces, if they have none."""

    async def start(self) -> None:
        """Raises Unavailable."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._socket = ours
        stage = tempfile.mkdtemp(prefix=f"{cleanup.STAGE_PREFIX}{os.getpid()}-")
        try:
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    self._environment.python,
                    *FLAGS,
                    str(CAGE / "workspace" / "enter.py"),
                    *(str(theirs.fileno()), str(os.getpid())),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env=ENVIRONMENT,
                    cwd="/",
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            self._words = asyncio.create_task(self._tell())
            setup = {
                "stage": stage,
                "uid": self._uid,
                "packages": self._environment.packages,
                "paths": self._paths,
                "warm": (),
            }
            async with asyncio.timeout(protocol.START_LIMIT):
                await asyncio.get_running_loop().sock_sendall(ours, protocol.frame(setup))
                self.refused = str((await receive(ours))["refused"])
        except (OSError, EOFError, TimeoutError) as error:
            await self.stop()
            raise Unavailable(f"the process that makes workspaces did not start: {error!r}") from error
        finally:
            os.rmdir(stage)

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.returncode is None and not self._is_gone

    async def fork(self, connection: socket.socket, cpu_usage: int) -> int:
        """A keeper that has the other end of the connection, and waits for its setup. Returns its process id.

        Raises Unavailable.
        """
        descriptors = [connection.fileno(), *([cpu_usage] if cpu_usage >= 0 else [])]
        try:
            async with self._gate:
                socket.send_fds(self._socket, [b"."], descriptors)
                return int((await receive(self._socket))["pid"])
        except (OSError, EOFError) as error:
            self._is_gone = True
            raise Unavailable(f"the process that makes workspaces is gone: {error!r}") from error

    async def _tell(self) -> None:
        """Last words of its own and of keepers, for the log."""
        assert self._process
        assert self._process.stderr
        with contextlib.suppress(asyncio.CancelledError):
            while words := await self._process.stderr.read(512):
                log.warning("workspace.complained", words=words.decode("utf-8", "replace"))

    async def stop(self) -> None:
        self._socket.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()  # none where it was seen to end: its number may be another's
            await self._process.wait()
        if self._words is not None:
            self._words.cancel()
            await asyncio.gather(self._words, return_exceptions=True)


async def receive(connection: socket.socket) -> dict[str, Any]:
    """One message of the cage's: wire.frame. Raises EOFError, OSError."""
    (length,) = protocol.LENGTH.unpack(await _exactly(connection, protocol.LENGTH.size))
    message: dict[str, Any] = json.loads(await _exactly(connection, length))
    return message


async def receive_socket(connection: socket.socket) -> socket.socket:
    """One that the cage has made. Raises EOFError, OSError."""
    ready, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not descriptors:
        raise EOFError("the other side hung up")
    made = socket.socket(fileno=descriptors[0])
    made.setblocking(False)
    return made


async def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = await asyncio.get_running_loop().sock_recv(connection, count - len(data))
        if not more:
            raise EOFError("the other side hung up")
        data += more
    return data
