"""The service's side of the fork server: it forks engine processes, each in a process group of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ratchet_kit.errors import Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.process import ProcessGroup
from rollout_service.adapters.engines import wire

log = get_logger(__name__)

_POLL_SECONDS = 0.02


class ForkServer:
    """A context manager: the processes that it forked end with it. When it dies, the next `fork` starts it again."""

    def __init__(self, device: Literal["cpu", "cuda"], environment: Mapping[str, str], log_file: Path) -> None:
        self._device = device
        self._environment = environment
        self._log_file = log_file
        self._group: ProcessGroup | None = None
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        async with self._one_at_a_time:
            await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._group is not None:
            await self._group.stop()

    async def fork(self, request: wire.ForkRequest) -> "ForkedProcess":
        """A new engine process. Waits until the fork server has imported vLLM.

        Raises Unavailable when the fork server dies meanwhile.
        """
        async with self._one_at_a_time:
            group = self._group
            if group is None or group.returncode is not None:
                group = await self._start()
            assert group.stdin is not None
            assert group.stdout is not None
            try:
                group.stdin.write(wire.encode_fork_request(request) + b"\n")
                await group.stdin.drain()
                pid = await group.stdout.readline()
            except BaseException:
                # A caller that is cancelled here leaves a pid unread, which the next caller would take for its own.
                self._group = None
                await group.stop(timedelta(0))
                raise
            if not pid:
                await group.wait()
                raise Unavailable(f"the process that starts engines died; see {self._log_file}")
            return ForkedProcess(int(pid))

    async def _start(self) -> ProcessGroup:
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        with self._log_file.open("ab") as output:
            self._group = await ProcessGroup.start(
                [sys.executable, "-m", "rollout_service.adapters.process.forkserver_main", self._device],
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
            )
        log.info("forkserver.started", pid=self._group.pid)
        return self._group


class ForkedProcess:
    """A process that the fork server forked and reaps. It leads a process group of its own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def alive(self) -> bool:
        """Whether any process of its group is left."""
        return self._signal(0)

    async def stop(self, grace: timedelta) -> None:
        """SIGTERM to the group, SIGKILL after `grace`. Returns when no process of it is left."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace.total_seconds()
        self._signal(signal.SIGTERM)
        while self.alive() and loop.time() < end:
            await asyncio.sleep(_POLL_SECONDS)
        while self._signal(signal.SIGKILL):
            await asyncio.sleep(_POLL_SECONDS)

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True
