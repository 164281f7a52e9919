"""A forked process, as the keeper sees it."""

import contextlib
import os
import select
import signal
from typing import Protocol

from sandbox_service.cage.lane.cpu_time import cpu_clock


class Forker(Protocol):
    """Forks children and waits for them: see zygote.py."""

    ended: int

    def number(self) -> int: ...

    def await_number(self) -> None: ...

    def ask_to_wait(self) -> None: ...

    def wait(self) -> tuple[int, float, int]: ...


class Child:
    """A forked process and what the kernel said about it."""

    def __init__(self, zygote: Forker, awaited: bool) -> None:
        self._zygote, self._awaited = zygote, awaited
        self._pid = 0
        self.status: int | None = None
        self.cpu = 0.0
        self.max_rss = 0

    @property
    def descriptor(self) -> int:
        """Readable once it has ended, of the one that is awaited."""
        return self._zygote.ended

    def number(self) -> int:
        """0 if it ended before it could be known."""
        if not self._pid:
            if self.status is None:
                self._zygote.await_number()
            self._pid = self._zygote.number()
        return self._pid

    def ends_within(self, seconds: float) -> bool:
        if not select.select((self.descriptor,), (), (), seconds)[0]:
            return False
        self.reap()
        return True

    def cpu_so_far(self) -> float:
        pid = self.number() if self.status is None else 0
        if not pid:
            return self.cpu
        with contextlib.suppress(OSError):  # it has ended, and what was last seen is all that is known until `reap`
            self.cpu = cpu_clock(pid)
        return self.cpu

    def reap(self) -> None:
        if self.status is None:
            status, self.cpu, self.max_rss = self._zygote.wait()
            self.status = os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """The last that was forked first."""
        if not self._awaited:
            self._zygote.ask_to_wait()
        if self.status is None and (pid := self.number()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.reap()
        self.number()  # taken out of the way of the next one's
