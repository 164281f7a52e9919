"""The process that a lane's programs are forked from, and what a forked process does until it ends."""

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

import runner
import wire
from child import Child
from kernel import libc
from pipe import high
from world import LeftBehind, World

# What a child does, given open descriptors: it returns the exit status.
Begin = Callable[[Sequence[int]], int]


class Zygote:
    """A process that does nothing but fork and wait, for good.

    All that it ever reads is the word to do so, and descriptors to hand on: each child begins where the first began,
    and no trace of one is in the next. What else is new for each it makes before, unread: world.py. And what the
    keeper writes while a child runs is copied by neither: a fork shares all memory until one side writes to it, and
    the copies are most of what a program costs.

    It's pid 1 of the lane's pid namespace, where that has one: no program can do anything to it, and what a program
    leaves running becomes its child. `pid` is its number outside.
    """

    _ENDED = struct.Struct("=idq")
    _NUMBER = struct.Struct("=I")
    _CREDENTIALS = struct.Struct("=iII")
    _OPEN, _FORK, _WAIT, _CLOSE, _TIME = b"o", b"f", b"w", b"c", b"t"
    _DESCRIPTORS = 4  # at most

    def __init__(self, prepare: Callable[[], None], begin: Begin, world: World, complaints: int) -> None:
        """`prepare`: what the zygote does first. `complaints`: a descriptor for its last words.

        Raises EOFError if it ended at that.
        """
        orders, self._orders = (high(side.detach()) for side in socket.socketpair())
        born, there = socket.socketpair()
        born.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._born, self._there = socket.socket(fileno=high(born.detach())), high(there.detach())
        self._born.setblocking(False)
        self.ended, ended = (high(side) for side in os.pipe())
        self.pid = os.fork()
        if self.pid == 0:
            try:
                libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
                for descriptor in (self._orders, self._born.fileno(), self.ended):
                    os.close(descriptor)
                prepare()
                os.write(ended, self._ENDED.pack(0, 0.0, 0))
                self._serve(orders, ended, begin, world)
            except LeftBehind as error:
                os.write(complaints, f"{wire.LEFT_BEHIND}{error}"[:512].encode())
            except BaseException as error:  # noqa: BLE001
                complain(complaints, error)
            finally:
                os._exit(0)
        for descriptor in (orders, self._there, ended):
            os.close(descriptor)
        self.wait()

    def _serve(self, orders: int, ended: int, begin: Begin, world: World) -> None:
        children: list[int] = []
        while word := os.read(orders, 1):
            if word == self._WAIT:
                _, status, usage = os.wait4(children.pop(), 0)
                cpu, max_rss = usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
                os.write(ended, self._ENDED.pack(status, cpu, max_rss))
            elif word == self._OPEN:
                world.open()
            elif word == self._CLOSE:
                os.write(ended, self._ENDED.pack(0, world.close(), 0))
            elif word == self._TIME:
                (count,) = self._NUMBER.unpack(wire.read_exactly(orders, self._NUMBER.size))
                os.write(ended, self._ENDED.pack(0, seconds_of_forks(count), 0))
            else:
                descriptors = self._take_descriptors(orders)
                if pid := os.fork():
                    children.append(pid)
                    for descriptor in descriptors:
                        os.close(descriptor)
                else:
                    os.write(self._there, b".")
                    _enter(begin, descriptors)

    def _take_descriptors(self, orders: int) -> list[int]:
        connection = socket.socket(fileno=orders)
        try:
            return socket.recv_fds(connection, 1, self._DESCRIPTORS)[1]
        finally:
            connection.detach()

    def open_world(self) -> None:
        """For the next forks. All orders are carried out in turn."""
        os.write(self._orders, self._OPEN)

    def close_world(self) -> float:
        """After the last of them: kills what the program left running. Returns its CPU seconds.

        Raises EOFError where something is left behind all the same: then the zygote has ended, and said what.
        """
        os.write(self._orders, self._CLOSE)
        return self.wait()[1]

    def fork(self, descriptors: Sequence[int] = (), awaited: bool = True) -> Child:
        """`begin` gets them by the numbers that they have there. `awaited`: it's the last, for now."""
        # apart, as descriptors go with the first byte of what they are sent with
        os.write(self._orders, self._FORK)
        connection = socket.socket(fileno=self._orders)
        try:
            socket.send_fds(connection, [b"." + (self._WAIT if awaited else b"")], descriptors)
        finally:
            connection.detach()
        return Child(self, awaited)

    def ask_to_wait(self) -> None:
        """For the last child that it was not ordered to await yet: `ended` is readable once that has ended."""
        os.write(self._orders, self._WAIT)

    def number(self) -> int:
        """That of the next child, as this process sees it, or 0: the kernel adds who wrote. It can be taken once."""
        try:
            _, control, _, _ = self._born.recvmsg(1, socket.CMSG_SPACE(self._CREDENTIALS.size))
        except BlockingIOError:
            return 0
        return self._CREDENTIALS.unpack(control[0][2])[0] if control else 0

    def await_number(self) -> None:
        """Until there's one, or the child that is waited for has ended."""
        select.select((self._born.fileno(), self.ended), (), ())

    def wait(self) -> tuple[int, float, int]:
        status, cpu, max_rss = self._ENDED.unpack(wire.read_exactly(self.ended, self._ENDED.size))
        return status, cpu, max_rss

    def end(self) -> None:
        """And all that it forked, where it's pid 1."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def seconds_of_forks(self, count: int) -> float:
        os.write(self._orders, self._TIME + self._NUMBER.pack(count))
        return self.wait()[1]


def _enter(begin: Begin, descriptors: Sequence[int]) -> NoReturn:
    """All that a forked process does. Nothing that it raises gets out of here."""
    status = 97
    try:
        status = begin(descriptors)
    except BaseException as error:  # noqa: BLE001
        complain(2, error)
    finally:
        os._exit(status)


def complain(descriptor: int, error: BaseException) -> None:
    """The last words of a process, in a line."""
    runner.relieve(error)
    os.write(descriptor, f"{type(error).__name__}: {error}"[:512].encode("utf-8", "replace"))


def seconds_of_forks(count: int) -> float:
    """What bounds every program: a fork of this process and its exit, `count` times in a row."""
    started = time.perf_counter()
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return time.perf_counter() - started
