"""Child processes that own everything they start, and that do not outlive us."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO

_POLL = 0.02


class ProcessGroup:
    """A child in a session of its own, with all that it starts. Use it in `async with`, or call `stop`.

    The child gets SIGTERM when the thread that started it ends, so also when this process is killed: start it from a
    thread that lives as long as the service (Linux, prctl(2) PR_SET_PDEATHSIG).
    """

    def __init__(self, process: asyncio.subprocess.Process, args: Sequence[str]) -> None:
        self._process = process
        self.args = tuple(args)

    @classmethod
    async def start(
        cls,
        args: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int | IO[bytes] | None = asyncio.subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> "ProcessGroup":
        """Starts `args`. `env` is the whole environment; without it the child gets ours.

        Raises:
            FileNotFoundError: there is no such program.
        """
        launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("_launch.py")), str(os.getpid())]
        process = await asyncio.create_subprocess_exec(
            *launcher,
            *args,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        return cls(process, args)

    @property
    def pid(self) -> int:
        """The child's process id, which is also that of its session and group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The child's exit status, the negative number of the signal that ended it, or None while it runs."""
        return self._process.returncode

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        return self._process.stdout

    @property
    def stderr(self) -> asyncio.StreamReader | None:
        return self._process.stderr

    async def wait(self) -> int:
        """Waits until the child ends and returns its exit status. What it started may still run: see `stop`."""
        return await self._process.wait()

    async def stop(self, grace: timedelta = timedelta(seconds=10)) -> int:
        """SIGTERM to the group, SIGKILL after `grace` to what is left of it; returns the child's exit status.

        When it returns, nothing of the group is left, also where the child itself had ended before.
        """
        end = asyncio.get_running_loop().time() + grace.total_seconds()
        self._signal(signal.SIGTERM)
        while self._alive() and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_POLL)
        self._signal(signal.SIGKILL)
        code = await self._process.wait()
        while self._alive():
            await asyncio.sleep(_POLL)
        return code

    async def __aenter__(self) -> "ProcessGroup":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def _alive(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        return True
