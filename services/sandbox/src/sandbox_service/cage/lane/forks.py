"""The zygote: the process that a lane's programs are forked from, and what a forked process does until it ends.

Kept small, and its modules few: every program inherits them. What the keeper knows of it is in zygote.py.
"""

import itertools
import os
import signal
import struct
import time
from _socket import AF_UNIX, CMSG_SPACE, SO_PASSCRED, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from sandbox_service.cage.kernel import libc
from sandbox_service.cage.lane.proof import LeftBehind
from sandbox_service.cage.lane.world import World
from sandbox_service.cage.run import runner

PLACES = 7  # for the descriptors of a child: from 0 on
# What a child does, given how many descriptors it has: it returns the exit status.
Begin = Callable[[int], int]

FORK, FORK_LAST, WAIT, TIME, CLEAR = range(
    5
)  # orders: the first byte, and then for forks how many descriptors come along
COUNT = struct.Struct("=I")
CHILD = struct.Struct("=idq")  # status, CPU seconds, kilobytes resident at most
SECONDS = struct.Struct("=d")


class Ends(NamedTuple):
    """The keeper's, of what connects it to the zygote, whose number it sees is `pid`. `ended`: what comes back."""

    pid: int
    orders: socket
    born: socket
    ended: int


def start(
    prepare: Callable[[], None],
    begin: Begin,
    world: World,
    complaints: int,
    keep: int,
    serve: "Callable[[socket, int, int, Begin, World], None] | None" = None,
) -> Ends:
    """Forks the zygote, or another process that does as `serve` says. `prepare`: what it does first. `complaints`: a
    descriptor for its last words. `keep`: another one that it has, and all its children. When it's ready, it says so by
    seconds."""
    theirs, orders = (_high_socket(side) for side in socketpair(AF_UNIX, SOCK_SEQPACKET))
    born, there = (_high_socket(side) for side in socketpair())
    born.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
    born.setblocking(False)
    reader, ended = (libc.high(side) for side in os.pipe())
    pid = os.fork()
    if pid == 0:
        try:
            libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
            _close_all_but(theirs.fileno(), there.fileno(), ended, complaints, keep)
            prepare()
            (serve or _serve)(theirs, there.fileno(), ended, begin, world)
        except BaseException as error:  # noqa: BLE001
            complain(complaints, error)
        finally:
            os._exit(0)
    theirs.close()
    there.close()
    os.close(ended)
    return Ends(pid, orders, born, reader)


def _high_socket(made: socket) -> socket:
    return socket(fileno=libc.high(made.detach()))


def _close_all_but(*descriptors: int) -> None:
    for below, above in itertools.pairwise([-1, *sorted(descriptors), os.sysconf("SC_OPEN_MAX")]):
        os.closerange(below + 1, above)


def _serve(orders: socket, there: int, ended: int, begin: Begin, world: World) -> None:
    _Zygote(orders, there, ended, begin, world).serve()


class _Zygote:
    """All that it ever reads is the word to fork or to wait, with the descriptors that a child is to have: they land
    where it has nothing itself, from 0 on. So each child begins where the first began, and no trace of one is in the
    next. What else is new for each is made by the keeper: world.py. What the zygote writes while a child runs is
    copied: a fork shares all memory until one side writes to it, and the copies are most of what a program costs."""

    def __init__(self, orders: socket, there: int, ended: int, begin: Begin, world: World) -> None:
        self._orders, self._there, self._ended, self._begin, self._world = orders, there, ended, begin, world
        self._children: list[int] = []

    def serve(self) -> None:
        self._world.rest()
        self._answer(0.0)
        room = CMSG_SPACE(4 * PLACES)
        while order := self._orders.recvmsg(8, room)[0]:
            if order[0] == TIME:
                self._answer(seconds_of_forks(*COUNT.unpack(order[2:])))
                continue
            if order[0] != WAIT:
                self._fork(order[1])
            if order[0] != FORK:
                self._wait_for_last()

    def _fork(self, places: int) -> None:
        if not self._children:
            self._world.number_anew()
        pid = os.fork()
        if pid == 0:
            os.write(self._there, b".")
            enter(self._begin, places)
        os.closerange(0, PLACES)
        self._children.append(pid)

    def _wait_for_last(self) -> None:
        """As little as can be before the child has ended."""
        _, status, usage = os.wait4(self._children.pop(), 0)
        child = CHILD.pack(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
        if self._children:
            os.write(self._ended, child)
        else:
            self._answer(self._world.clear(), child)

    def _answer(self, seconds: float, child: bytes = b"") -> None:
        os.write(self._ended, child + SECONDS.pack(seconds))


def enter(begin: Begin, places: int) -> NoReturn:
    """All that a forked process does. Nothing that it raises gets out of here."""
    status = 97
    try:
        status = begin(places)
    except BaseException as error:  # noqa: BLE001
        complain(2, error)
    finally:
        os._exit(status)


def complain(descriptor: int, error: BaseException) -> None:
    """The last words of a process, in a line."""
    runner.relieve(error)
    kind = "left behind" if isinstance(error, LeftBehind) else type(error).__name__
    os.write(descriptor, f"{kind}: {error}"[:512].encode("utf-8", "replace"))


def seconds_of_forks(count: int) -> float:
    """What bounds every program: a fork of this process and its exit, `count` times in a row."""
    started = time.perf_counter()
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return time.perf_counter() - started
