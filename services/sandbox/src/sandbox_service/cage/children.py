"""What the zygote holds of forked children: the processes, their ways out, their time."""

import contextlib
import fcntl
import mmap
import os
import select
import signal
import time
from typing import TYPE_CHECKING

import crowd

if TYPE_CHECKING:
    from template import Template

_MADV_DONTFORK = 10
_KEPT = 64 << 10
_HIGH = 64  # above the descriptors that programs get


def high(descriptor: int) -> int:
    """Moves it out of the way of those that programs get."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(descriptor)
    return moved


class Pipe:
    """One way out of a child, collected up to `size` bytes into a mapping that no fork inherits."""

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._map.madvise(_MADV_DONTFORK)
        self._view = memoryview(self._map)
        self.size, self.used, self.reader, self.writer = size, 0, -1, -1

    def open(self, place: int = -1) -> None:
        """`place`: the descriptor that the writing end is to have, for good."""
        self.used = 0
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.writer, True)
        if place >= 0:
            self.reader, writer = high(self.reader), high(self.writer)
            os.dup2(writer, place)
            os.close(writer)
            self.writer = place

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def fill(self) -> bool:
        """Takes what's there. False once there's nothing more to come, or no room for it."""
        room = self._view[self.used :]
        try:
            count = os.readv(self.reader, [room]) if room else 0
        except BlockingIOError:
            return True
        self.used += count
        return 0 < count < len(room)

    def close(self) -> None:
        self.close_writer()
        os.close(self.reader)
        self.reader = -1

    def content(self, limit: int) -> memoryview:
        return self._view[: min(self.used, limit)]

    def renew(self) -> None:
        """For the next program, when nobody is left who writes: empty, and blocking as it was made."""
        if self.used == self.size:  # there may be more than it took
            try:
                while os.read(self.reader, 1 << 16):
                    pass
            except BlockingIOError:
                pass
        self.wipe()
        fcntl.fcntl(self.writer, fcntl.F_SETFL, os.O_WRONLY)

    def wipe(self) -> None:
        """Gives back the memory of a large answer; that of others is written over by the next."""
        if self.used > _KEPT:
            self._map.madvise(mmap.MADV_DONTNEED)
        self.used = 0


class Child:
    """A forked process and what the kernel said about it."""

    def __init__(self, template: "Template", awaited: bool) -> None:
        self._template, self._awaited = template, awaited
        self._pid = 0
        self.status: int | None = None
        self.cpu = 0.0
        self.max_rss = 0

    @property
    def descriptor(self) -> int:
        """Readable once it has ended, of the one that is awaited."""
        return self._template.ended

    def number(self) -> int:
        """0 if it ended before it could be known."""
        if not self._pid:
            if self.status is None:
                self._template.await_number()
            self._pid = self._template.number()
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
        try:
            return time.clock_gettime((~pid << 3) | 2)  # the CPU clock of a process: clock_getcpuclockid(3)
        except OSError:
            return 0.0

    def reap(self) -> None:
        if self.status is None:
            status, self.cpu, self.max_rss = self._template.wait()
            self.status = os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """The last that was forked first."""
        if not self._awaited:
            self._template.ask_to_wait()
        if self.status is None and (pid := self.number()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.reap()
        self.number()  # taken out of the way of the next one's


class Budget:
    """The time of a job: CPU seconds, seconds in which it did nothing, and seconds on the clock.

    A program is judged by what it computes and by how long it idles, not by how long others kept it from the
    processor: an interval counts as idle only if the job used less than a twentieth of it. The bound on the clock is
    the last resort.
    """

    _INTERVAL, _LONGEST_INTERVAL, _IDLE_SHARE = 0.05, 0.25, 0.05
    _MEMORY_INTERVAL = 0.02

    def __init__(
        self,
        children: list[Child],
        cpu: float,
        idle: float,
        wall: float,
        group: crowd.Crowd | None = None,
        memory: int = 0,
    ) -> None:
        """With a `group`, the time and the memory of all its processes count, however they are related."""
        self._children = children
        self._group, self._memory = group, memory
        self._cpu, self._idle, self._wall = cpu, idle, wall
        self._started = self._seen_at = time.monotonic()
        self._seen_cpu = 0.0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def spent(self) -> str:
        """Which limit is reached: memory, cpu, idle, wall, or none yet."""
        if self._group:
            self._group.look(self._memory)
            if self._group.memory > self._memory:
                return "memory"
        cpu, now = self._cpu_so_far(), time.monotonic()
        passed = now - self._seen_at
        if passed >= self._INTERVAL:
            if cpu - self._seen_cpu < passed * self._IDLE_SHARE:
                # a longer one means that this process itself did not run: a machine that slept, or a very busy one
                self._idle -= min(passed, self._LONGEST_INTERVAL)
            self._seen_at, self._seen_cpu = now, cpu
        if cpu >= self._cpu:
            return "cpu"
        if self._idle <= 0:
            return "idle"
        return "wall" if self.elapsed >= self._wall else ""

    def patience(self) -> float:
        """Seconds until it's worth looking again. A program has one core: no faster than the clock runs."""
        longest = self._MEMORY_INTERVAL if self._group else 2 * self._INTERVAL
        return max(0.005, min(self._cpu - self._cpu_so_far(), longest))

    def _cpu_so_far(self) -> float:
        cpu = sum(child.cpu_so_far() for child in self._children)
        return max(cpu, self._group.cpu) if self._group else cpu
