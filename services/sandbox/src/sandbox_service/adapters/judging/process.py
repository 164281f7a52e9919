"""The judge of what is large: see child.py."""

import asyncio
import contextlib
import pickle
import socket
import sys
from collections.abc import Callable
from typing import Self

from ratchet_kit import metrics
from ratchet_kit.errors import Unavailable
from ratchet_kit.logs import get_logger
from sandbox_service.adapters.judging.child import LENGTH
from sandbox_service.domain.grading import Outcome
from sandbox_service.domain.jobs import Report
from sandbox_service.domain.ports import Overrun

log = get_logger(__name__)
_judged = metrics.counter("sandbox_judged_apart", "Large answers that a process of its own judged, by its end", ["end"])

_PATIENCE = 60  # times the CPU limit on the clock, beside others that are busy


class JudgeProcess:
    """`async with JudgeProcess() as judge`. The process starts with the first judgement."""

    def __init__(self, cpu_seconds: int = 10, memory_bytes: int = 1 << 30, at_once: int = 2) -> None:
        """Limits of one judgement, and how many there are at a time."""
        self._gate = asyncio.Semaphore(at_once)
        self._cpu_seconds, self._memory_bytes = cpu_seconds, memory_bytes
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def __call__(self, report: Report, judge: Callable[[Report], Outcome]) -> tuple[Report, Outcome]:
        """As the port says. Raises Unavailable when the process can't be had."""
        work = await asyncio.to_thread(pickle.dumps, (report, judge))
        try:
            async with self._gate, asyncio.timeout(_PATIENCE * self._cpu_seconds):
                answer = await self._ask(LENGTH.pack(len(work)) + work)
        except TimeoutError as error:
            raise Unavailable("a large answer was not judged in time: this machine is too busy") from error
        if not answer:
            if self._process is None or self._process.returncode is not None:
                raise Unavailable("the process that judges large answers has ended")
            _judged.labels("overrun").inc()
            raise Overrun
        found = await asyncio.to_thread(pickle.loads, answer)
        if isinstance(found, str):
            _judged.labels("error").inc()
            raise RuntimeError(found)
        _judged.labels("done").inc()
        whole, outcome = found
        return whole, outcome

    async def _ask(self, work: bytes) -> bytes:
        control = await self._connected()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(control, [b"j"], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise Unavailable("the process that judges large answers has ended") from error
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
                        *(sys.executable, "-m", "sandbox_service.adapters.judging.child", str(theirs.fileno())),
                        *(str(self._cpu_seconds), str(self._memory_bytes)),
                        stdin=asyncio.subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),),
                    )
                log.info("judge.started", pid=self._process.pid)
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
