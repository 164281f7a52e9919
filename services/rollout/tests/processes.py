"""Engines as processes, without vLLM and its fork server: see `process_engine`."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from rollout_service.adapters.engines import wire
from rollout_service.adapters.engines.forkserver import ForkedProcess

_PROGRAM = Path(__file__).with_name("process_engine.py")


class ProcessForks:
    """In place of a `ForkServer`."""

    def __init__(self) -> None:
        self.started: list[ForkedProcess] = []
        self._processes: list[asyncio.subprocess.Process] = []

    async def fork(self, request: wire.ForkRequest) -> ForkedProcess:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(_PROGRAM), request.socket, start_new_session=True
        )
        self._processes.append(process)  # asyncio reaps it
        self.started.append(ForkedProcess(process.pid))
        return self.started[-1]


def members(group: int) -> list[int]:
    """The processes of a group, the leader first."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group:
            found.append(int(status.parent.name))
    return sorted(found, key=lambda pid: pid != group)


def freeze(group: int, part: str) -> None:
    """Stops the engine's process, or its core."""
    leader, *cores = members(group)
    for pid in [leader] if part == "engine" else cores:
        os.kill(pid, signal.SIGSTOP)
