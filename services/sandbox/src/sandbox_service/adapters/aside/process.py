"""Does work in another process: see child.py."""

import asyncio
import contextlib
import pickle
import socket
import sys
import time
from collections.abc import Callable
from typing import Self, TypeVar

from ratchet_kit import metrics
from ratchet_kit.errors import Unavailable
from ratchet_kit.logs import get_logger
from sandbox_service.adapters.aside.child import LENGTH
from sandbox_service.domain.ports import Overrun

log = get_logger(__name__)
_done = metrics.counter("sandbox_done_aside", "Long work that was done in a process of its own, by its end", ["end"])
_T = TypeVar("_T")

_ENDED = "the process that does long work has ended"
_ATTEMPTS = 2
_PATIENCE = 60  # times the CPU limit on the clock, beside others that are busy


class AsideProcess:
    """`async with AsideProcess() as aside`. The process starts with the first piece of work."""

    def __init__(self, cpu_seconds: int = 10, memory_bytes: int = 1 << 30, at_once: int = 2) -> None:
        """Limits of one piece, and how many there are at a time."""
        self._gate = asyncio.Semaphore(at_once)
        self._cpu_seconds, self._memory_bytes = cpu_seconds, memory_bytes
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def __call__(self, function: Callable[..., _T], *arguments: object) -> _T:
        """As the port says. Raises Unavailable when the process can't be had."""
        for _ in range(_ATTEMPTS):
            try:
                async with self._gate, asyncio.timeout(_PATIENCE * self._cpu_seconds):
                    started = time.monotonic()
                    work = await asyncio.to_thread(pickle.dumps, (function, arguments))
                    answer = await self._ask(LENGTH.pack(len(work)) + work)
            except TimeoutError as error:
                raise Unavailable("long work was not done in time: this machine is too busy") from error
            if answer or time.monotonic() - started >= self._cpu_seconds:
                break
            # sooner than by its time limit: it may have been killed
        if not answer:
            if self._process is None or self._process.returncode is not None:
                raise Unavailable(_ENDED)
            _done.labels("overrun").inc()
            raise Overrun
        found: tuple[_T] | str = await asyncio.to_thread(pickle.loads, answer)
        if isinstance(found, str):
            _done.labels("error").inc()
            raise RuntimeError(found)
        _done.labels("done").inc()
        return found[0]

    async def _ask(self, work: bytes) -> bytes:
        control = await self._connected()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(control, [b"w"], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise Unavailable(_ENDED) from error
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            with contextlib.suppress(ConnectionError):  # it may be at its limit before it has read all
                writer.write(work)
                await writer.drain()
            try:
                return await reader.read()
            except ConnectionError:
                return b""
        finally:
            writer.close()

    async def _connected(self) -> socket.socket:
        async with self._starting:
            if self._control is None or self._process is None or self._process.returncode is not None:
                await self._stop()
                self._control, theirs = socket.socketpair()
                with theirs:
                    self._process = await asyncio.create_subprocess_exec(
                        *(sys.executable, "-m", "sandbox_service.adapters.aside.child", str(theirs.fileno())),
                        *(str(self._cpu_seconds), str(self._memory_bytes)),
                        stdin=asyncio.subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),),
                    )
                log.info("aside.started", pid=self._process.pid)
            return self._control

    async def _stop(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
