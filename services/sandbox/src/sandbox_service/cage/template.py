"""The process from which a lane's programs are forked, and what a forked process does until it ends."""

import marshal
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from typing import NoReturn

import job
import libc
from children import Child, high, wait

_MESSAGE_BYTES = 4096

# What a child does, told by a message and open descriptors: it returns the exit status.
Begin = Callable[[tuple, list[int]], int]


class Template:
    """A process that does nothing but fork, one child at a time, for good.

    All that it ever reads is the word to do so: each child begins where the first began, and no trace of one is in the
    next. And what the zygote writes while a child runs is copied by neither: a fork shares all memory until one side
    writes to it, and the copies are most of what a program costs.

    It's pid 1 of the lane's pid namespace, where that has one: no program can do anything to it, and what a program
    leaves running becomes its child. `pid` is its number outside.
    """

    _ENDED = struct.Struct("=idq")
    _NUMBER = struct.Struct("=I")
    _CREDENTIALS = struct.Struct("=iII")
    _FORK, _FORK_WITH, _END_STRAYS, _TIME = b"f", b"d", b"e", b"t"

    def __init__(self, begin: Begin, complaints: int) -> None:
        """`complaints`: a descriptor for its last words."""
        asked, self._asked = (high(side.detach()) for side in socket.socketpair())
        born, there = socket.socketpair()
        born.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._born, self._there = socket.socket(fileno=high(born.detach())), high(there.detach())
        self._born.setblocking(False)
        self.ended, ended = (high(side) for side in os.pipe())
        self.pid = os.fork()
        if self.pid == 0:
            try:
                libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
                for descriptor in (self._asked, self._born.fileno(), self.ended):
                    os.close(descriptor)
                self._serve(asked, ended, begin)
            except BaseException as error:  # noqa: BLE001
                complain(complaints, error)
            finally:
                os._exit(0)
        for descriptor in (asked, self._there, ended):
            os.close(descriptor)

    def _serve(self, asked: int, ended: int, begin: Begin) -> None:
        while word := os.read(asked, 1):
            if word == self._END_STRAYS:
                os.write(ended, self._ENDED.pack(0, _end_strays(), 0))
            elif word == self._TIME:
                (count,) = self._NUMBER.unpack(job.read_exactly(asked, self._NUMBER.size))
                os.write(ended, self._ENDED.pack(0, seconds_of_forks(count), 0))
            elif pid := os.fork():
                os.write(ended, self._ENDED.pack(*wait(pid)))
            else:
                os.write(self._there, b".")
                enter(begin, *self._take_message(asked, word))

    def _take_message(self, asked: int, word: bytes) -> tuple[tuple, list[int]]:
        if word == self._FORK:
            return marshal.loads(os.read(asked, _MESSAGE_BYTES)), []
        with socket.socket(fileno=asked) as connection:
            data, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, 2)
        return marshal.loads(data), descriptors

    def fork(self, message: tuple, descriptors: list[int]) -> "Forked":
        """`begin` gets them both, with the numbers that the descriptors have there."""
        data = marshal.dumps(message)
        if not descriptors:
            os.write(self._asked, self._FORK + data)
            return Forked(self)
        # apart, as descriptors go with the first byte of what they are sent with
        os.write(self._asked, self._FORK_WITH)
        connection = socket.socket(fileno=self._asked)
        try:
            socket.send_fds(connection, [data], descriptors)
        finally:
            connection.detach()
        return Forked(self)

    def number(self) -> int:
        """That of the child, as this process sees it: the kernel tells who wrote. It can be taken once.

        0 if the child ended before it could write.
        """
        select.select((self._born, self.ended), (), ())
        try:
            _, control, _, _ = self._born.recvmsg(1, socket.CMSG_SPACE(self._CREDENTIALS.size))
        except BlockingIOError:
            return 0
        return self._CREDENTIALS.unpack(control[0][2])[0] if control else 0

    def wait(self) -> tuple[int, float, int]:
        status, cpu, max_rss = self._ENDED.unpack(job.read_exactly(self.ended, self._ENDED.size))
        return status, cpu, max_rss

    def end_strays(self) -> float:
        """Of pid 1: kills all other processes of its namespace. Returns their CPU seconds."""
        os.write(self._asked, self._END_STRAYS)
        return self.wait()[1]

    def end(self) -> None:
        """And all that it forked, where it's pid 1."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def seconds_of_forks(self, count: int) -> float:
        os.write(self._asked, self._TIME + self._NUMBER.pack(count))
        return self.wait()[1]


class Forked(Child):
    """A child of the template, which passes on what the kernel says of its end."""

    def __init__(self, template: Template) -> None:
        super().__init__(0, template.ended)
        self._template = template

    def number(self) -> int:
        self._pid = self._pid or self._template.number()
        return self._pid

    def _wait(self) -> tuple[int, float, int]:
        return self._template.wait()

    def _let_go(self) -> None:
        self.number()  # taken out of the way of the next one's


def _end_strays() -> float:
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return 0.0
    cpu = 0.0
    while True:
        try:
            usage = os.wait4(-1, 0)[2]
        except ChildProcessError:
            return cpu
        cpu += usage.ru_utime + usage.ru_stime


def enter(begin: Begin, message: tuple, descriptors: list[int]) -> NoReturn:
    """All that a forked process does. Nothing that it raises gets out of here."""
    status = 97
    try:
        status = begin(message, descriptors)
    except BaseException as error:  # noqa: BLE001
        complain(2, error)
    finally:
        os._exit(status)


def complain(descriptor: int, error: BaseException) -> None:
    """The last words of a process, in a line."""
    job.relieve(error)
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
