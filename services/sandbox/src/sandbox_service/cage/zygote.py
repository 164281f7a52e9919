"""The process that a lane's programs are forked from, and what a forked process does until it ends."""

import ctypes
import itertools
import os
import select
import signal
import struct
import time
from _socket import AF_UNIX, CMSG_SPACE, SCM_RIGHTS, SO_PASSCRED, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair
from collections.abc import Callable, Sequence
from typing import NoReturn

import runner
import wire
from child import Child
from kernel import libc
from pipe import high
from proof import LeftBehind
from world import World

PLACES = 6  # for the descriptors of a child: from 0 on
# What a child does, given how many descriptors it has: it returns the exit status.
Begin = Callable[[int], int]


def high_socket(made: socket) -> socket:
    return socket(fileno=high(made.detach()))


class Zygote:
    """A process that does nothing but fork and wait, for good.

    All that it ever reads is the word to do so, with the descriptors that a child is to have: they land where it has
    nothing itself, from 0 on. So each child begins where the first began, and no trace of one is in the next. What
    else is new for each is made by the keeper: world.py. What the zygote writes while a child runs is copied: a fork
    shares all memory until one side writes to it, and the copies are most of what a program costs.

    It's pid 1 of the lane's pid namespace, where that has one: no program can do anything to it, and what a program
    leaves running becomes its child. `pid` is its number outside.
    """

    _CHILD = struct.Struct("=i4x5q104x")  # as wait4 writes them: status, struct rusage
    _SECONDS = struct.Struct("=d")
    _CREDENTIALS = struct.Struct("=iII")
    _COUNT = struct.Struct("=I")
    _FORK, _FORK_LAST, _WAIT, _TIME = range(4)

    def __init__(self, prepare: Callable[[], None], begin: Begin, world: World, complaints: int, keep: int) -> None:
        """`prepare`: what the zygote does first. `complaints`: a descriptor for its last words. `keep`: another one
        that it has, and all its children.

        Raises EOFError if it ended at that.
        """
        orders, self._orders = (high_socket(side) for side in socketpair(AF_UNIX, SOCK_SEQPACKET))
        self._born, there = (high_socket(side) for side in socketpair())
        self._born.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
        self._born.setblocking(False)
        self.ended, ended = (high(side) for side in os.pipe())
        self.pid = os.fork()
        if self.pid == 0:
            try:
                libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
                _close_all_but(orders.fileno(), there.fileno(), ended, complaints, keep)
                prepare()
                _Forks(orders, there.fileno(), ended, begin, world).serve()
            except BaseException as error:  # noqa: BLE001
                complain(complaints, error)
            finally:
                os._exit(0)
        orders.close()
        there.close()
        os.close(ended)
        self._wait_seconds()

    def fork(self, descriptors: Sequence[int] = (), awaited: bool = True) -> Child:
        """`descriptors`: what `begin` finds, PLACES at most. `awaited`: it's the last of a program."""
        rights = [(SOL_SOCKET, SCM_RIGHTS, struct.pack(f"={len(descriptors)}i", *descriptors))] if descriptors else []
        self._orders.sendmsg([bytes((self._FORK_LAST if awaited else self._FORK, len(descriptors)))], rights)
        return Child(self, awaited)

    def ask_to_wait(self) -> None:
        """For the child that it was not ordered to await yet: `ended` is readable once that has ended."""
        self._orders.send(bytes((self._WAIT, 0)))

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
        read = wire.read_exactly(self.ended, self._CHILD.size)
        status, user, user_micro, system, system_micro, max_rss = self._CHILD.unpack(read)
        return status, user + system + (user_micro + system_micro) / 1e6, max_rss << 10

    def wait_for_all(self) -> float:
        """When all children have been waited for: until what they left running is killed. Returns its CPU seconds.

        Raises EOFError where something is left behind all the same: then the zygote has ended, and said what.
        """
        return self._wait_seconds()

    def _wait_seconds(self) -> float:
        (seconds,) = self._SECONDS.unpack(wire.read_exactly(self.ended, self._SECONDS.size))
        return float(seconds)

    def end(self) -> None:
        """And all that it forked, where it's pid 1."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def seconds_of_forks(self, count: int) -> float:
        self._orders.send(bytes((self._TIME, 0)) + self._COUNT.pack(count))
        return self._wait_seconds()


class _Forks:
    """What the zygote does."""

    def __init__(self, orders: socket, there: int, ended: int, begin: Begin, world: World) -> None:
        self._orders, self._there, self._ended, self._begin, self._world = orders, there, ended, begin, world
        self._children: list[int] = []
        # an answer, laid out beforehand: of the child that has ended, and the seconds of what ran on after the last
        size, seconds = Zygote._CHILD.size, Zygote._SECONDS.size
        answer = (ctypes.c_char * (size + seconds)).from_buffer(bytearray(size + seconds))
        self._whole = memoryview(answer)
        self._of_child, self._of_all = self._whole[:size], self._whole[size:]
        self._strays, self._pid = ctypes.c_double.from_buffer(answer, size), ctypes.c_int()
        self._wait = libc.prepared_wait(self._pid, answer, ctypes.byref(answer, 8))

    def serve(self) -> None:
        self._world.rest()
        os.write(self._ended, self._of_all)
        room = CMSG_SPACE(4 * PLACES)
        while order := self._orders.recvmsg(8, room)[0]:
            if order[0] == Zygote._TIME:
                self._strays.value = seconds_of_forks(*Zygote._COUNT.unpack(order[2:]))
                os.write(self._ended, self._of_all)
                continue
            if order[0] != Zygote._WAIT:
                self._fork(order[1])
            if order[0] != Zygote._FORK:
                self._wait_for_last()

    def _fork(self, places: int) -> None:
        if not self._children:
            self._world.number_anew()
        pid = os.fork()
        if pid == 0:
            os.write(self._there, b".")
            _enter(self._begin, places)
        os.closerange(0, PLACES)
        self._children.append(pid)

    def _wait_for_last(self) -> None:
        self._pid.value = self._children.pop()
        self._wait()
        if self._children:
            os.write(self._ended, self._of_child)
        else:
            self._strays.value = self._world.clear()
            os.write(self._ended, self._whole)


def _enter(begin: Begin, places: int) -> NoReturn:
    """All that a forked process does. Nothing that it raises gets out of here."""
    status = 97
    try:
        status = begin(places)
    except BaseException as error:  # noqa: BLE001
        complain(2, error)
    finally:
        os._exit(status)


def _close_all_but(*descriptors: int) -> None:
    for below, above in itertools.pairwise([-1, *sorted(descriptors), os.sysconf("SC_OPEN_MAX")]):
        os.closerange(below + 1, above)


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
