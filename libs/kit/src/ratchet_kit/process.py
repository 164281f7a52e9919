"""Child processes that own everything they start, and that do not outlive us."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO

_GUARD = Path(__file__).with_name("_guard.py")


class ProcessGroup:
    """A program, in a session of its own, with all that it starts. Use it in `async with`, or call `stop`.

    The program runs below a small guard process (`_guard.py`), which ends whatever is left of it once it has ended,
    daemons that moved to another session too. When this process is killed, the program gets SIGTERM, and SIGKILL
    `orphan_grace` later. Linux counts the end of the *thread* that called `start` as that: start programs from a
    thread that lives as long as the service.
    """

    def __init__(self, guard: asyncio.subprocess.Process, pid: int, args: Sequence[str]) -> None:
        self._guard = guard
        self.pid = pid
        """The program's process id, which is also that of its session and group."""
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
        orphan_grace: timedelta = timedelta(seconds=10),
    ) -> "ProcessGroup":
        """Starts `args` and returns once the program runs. `env` is its whole environment; without it, it gets ours.

        Raises:
            OSError: it cannot be started (FileNotFoundError: there is no such program).
        """
        ours, guards = os.pipe()
        guard_args = [str(os.getpid()), str(orphan_grace.total_seconds()), str(guards)]
        try:
            guard = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_GUARD), *guard_args, *args),
                env=env,
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=[*pass_fds, guards],
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(guards)
        try:
            pid, *failure = await asyncio.to_thread(_read_report, ours)
        except BaseException:
            guard.send_signal(signal.SIGUSR1)
            raise
        if failure:
            await guard.wait()
            raise OSError(failure[0], os.strerror(failure[0]), args[0])
        return cls(guard, pid, args)

    @property
    def returncode(self) -> int | None:
        """The program's exit status, the negative number of the signal that ended it, or None until `wait` returns."""
        return self._guard.returncode

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        return self._guard.stdin

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        return self._guard.stdout

    @property
    def stderr(self) -> asyncio.StreamReader | None:
        return self._guard.stderr

    async def wait(self) -> int:
        """Waits until the program and all that it started have ended, and returns its exit status."""
        return await self._guard.wait()

    async def stop(self, grace: timedelta = timedelta(seconds=10)) -> int:
        """SIGTERM to the group, SIGKILL to all of it after `grace`; returns the exit status once nothing is left.

        Cancelled while it waits, it kills at once. Harmless where the program has ended by itself.
        """
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace.total_seconds()):
                return await self._guard.wait()
        except TimeoutError:
            pass
        finally:
            self._signal(signal.SIGUSR1)
        return await self._guard.wait()

    async def __aenter__(self) -> "ProcessGroup":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _signal(self, number: signal.Signals) -> None:
        if self._guard.returncode is None:
            try:
                self._guard.send_signal(number)
            except ProcessLookupError:
                pass


def _read_report(fd: int) -> list[int]:
    with open(fd, "rb") as report:
        return [int(line) for line in report]


def line_of(file: int, timeout_s: float) -> bytes:
    """The next line that comes out of a pipe, without its end; empty when none came in time. Blocks."""
    line = bytearray()
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([file], [], [], timeout_s)
        part = os.read(file, 1 << 16) if ready else b""
        if not part:
            return b""
        line += part
    return bytes(line[:-1])
