"""The process that a lane's programs are forked from, as the keeper sees it."""

import os
import select
import signal
import struct
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET
from collections.abc import Sequence

from sandbox_service.cage.lane import forks
from sandbox_service.cage.lane.child import Child
from sandbox_service.cage.wire import wire


class Zygote:
    """It forks and waits, one order after the other: forks.py.

    It's pid 1 of the lane's pid namespace, where that has one: no program can do anything to it, and what a program
    leaves running becomes its child. `pid` is its number outside.
    """

    _CREDENTIALS = struct.Struct("=iII")

    def __init__(self, ends: forks.Ends) -> None:
        """Raises EOFError if it ended before it was ready."""
        self.pid, self._orders, self._born, self.ended = ends
        self._wait_seconds()

    def fork(self, descriptors: Sequence[int] = (), awaited: bool = True) -> Child:
        """`descriptors`: what it finds, from 0 on: forks.PLACES at most. `awaited`: it's the last of a program."""
        rights = [(SOL_SOCKET, SCM_RIGHTS, struct.pack(f"={len(descriptors)}i", *descriptors))] if descriptors else []
        self._orders.sendmsg([bytes((forks.FORK_LAST if awaited else forks.FORK, len(descriptors)))], rights)
        return Child(self, awaited)

    def ask_to_wait(self) -> None:
        """For the child that it was not ordered to await yet: `ended` is readable once that has ended."""
        self._orders.send(bytes((forks.WAIT, 0)))

    def number(self) -> int:
        """That of the next child, as this process sees it, or 0: the kernel adds who wrote. It can be taken once."""
        try:
            _, control, _, _ = self._born.recvmsg(1, CMSG_SPACE(self._CREDENTIALS.size))
        except BlockingIOError:
            return 0
        return self._CREDENTIALS.unpack(control[0][2])[0] if control else 0

    def await_number(self) -> None:
        """Until there's one, or the child that is waited for has ended."""
        select.select((self._born.fileno(), self.ended), (), ())

    def wait(self) -> tuple[int, float, int]:
        """For the child that is awaited: its status, its CPU seconds, the most bytes that were resident."""
        status, cpu, max_rss = forks.CHILD.unpack(wire.read_exactly(self.ended, forks.CHILD.size))
        return status, cpu, max_rss << 10

    def wait_for_all(self) -> float:
        """When all children have been waited for: until what they left running is killed. Returns its CPU seconds.

        Raises EOFError where something is left behind all the same: then the zygote has ended, and said what.
        """
        return self._wait_seconds()

    def clear(self) -> float:
        """Kills all that runs in a workspace (init.py). Returns its CPU seconds."""
        self._orders.send(bytes((forks.CLEAR, 0)))
        return self._wait_seconds()

    def _wait_seconds(self) -> float:
        (seconds,) = forks.SECONDS.unpack(wire.read_exactly(self.ended, forks.SECONDS.size))
        return float(seconds)

    def end(self) -> None:
        """And all that it forked, where it's pid 1."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def seconds_of_forks(self, count: int) -> float:
        self._orders.send(bytes((forks.TIME, 0)) + forks.COUNT.pack(count))
        return self._wait_seconds()
