"""A process from which programs are forked, and what a forked process does until it ends."""

import marshal
import os
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
    """

    _ENDED = struct.Struct("=idq")
    _NUMBER = struct.Struct("=I")
    _PLAIN, _WITH_DESCRIPTORS, _TIMED = b"p", b"d", b"t"

    def __init__(self, begin: Begin) -> None:
        asked, self._asked = (high(side.detach()) for side in socket.socketpair())
        self._born, born = (high(side) for side in os.pipe())
        self.ended, ended = (high(side) for side in os.pipe())
        pid = os.fork()
        if pid == 0:
            try:
                libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
                for descriptor in (self._asked, self._born, self.ended):
                    os.close(descriptor)
                self._serve(asked, born, ended, begin)
            finally:
                os._exit(0)
        for descriptor in (asked, born, ended):
            os.close(descriptor)

    def _serve(self, asked: int, born: int, ended: int, begin: Begin) -> None:
        while word := os.read(asked, 1):
            if word == self._TIMED:
                (count,) = self._NUMBER.unpack(job.read_exactly(asked, self._NUMBER.size))
                os.write(ended, self._ENDED.pack(0, seconds_of_forks(count), 0))
                continue
            pid = os.fork()
            if pid == 0:
                enter(begin, *self._take_message(asked, word))
            os.write(born, self._NUMBER.pack(pid))
            os.write(ended, self._ENDED.pack(*wait(pid)))

    def _take_message(self, asked: int, word: bytes) -> tuple[tuple, list[int]]:
        if word == self._PLAIN:
            return marshal.loads(os.read(asked, _MESSAGE_BYTES)), []
        with socket.socket(fileno=asked) as connection:
            data, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, 2)
        return marshal.loads(data), descriptors

    def fork(self, message: tuple, descriptors: list[int]) -> "Forked":
        """`begin` gets them both, with the numbers that the descriptors have there."""
        data = marshal.dumps(message)
        if not descriptors:
            os.write(self._asked, self._PLAIN + data)
            return Forked(self)
        # apart, as descriptors go with the first byte of what they are sent with
        os.write(self._asked, self._WITH_DESCRIPTORS)
        connection = socket.socket(fileno=self._asked)
        try:
            socket.send_fds(connection, [data], descriptors)
        finally:
            connection.detach()
        return Forked(self)

    def number(self) -> int:
        """That of the child, to be asked for once."""
        return int(self._NUMBER.unpack(job.read_exactly(self._born, self._NUMBER.size))[0])

    def wait(self) -> tuple[int, float, int]:
        status, cpu, max_rss = self._ENDED.unpack(job.read_exactly(self.ended, self._ENDED.size))
        return status, cpu, max_rss

    def seconds_of_forks(self, count: int) -> float:
        os.write(self._asked, self._TIMED + self._NUMBER.pack(count))
        return self.wait()[1]


class Forked(Child):
    """A child of the template, which passes on what the kernel says of its end."""

    def __init__(self, template: Template) -> None:
        self._template, self.descriptor = template, template.ended
        self._pid = 0
        self.status = None
        self.cpu, self.max_rss = 0.0, 0

    @property
    def pid(self) -> int:  # type: ignore[override]
        if not self._pid:
            self._pid = self._template.number()
        return self._pid

    def _wait(self) -> tuple[int, float, int]:
        return self._template.wait()

    def _let_go(self) -> None:
        assert self.pid  # taken out of the pipe, out of the way of the next one's


def enter(begin: Begin, message: tuple, descriptors: list[int]) -> NoReturn:
    """All that a forked process does. Nothing that it raises gets out of here."""
    status = 97
    try:
        status = begin(message, descriptors)
    except BaseException as error:  # noqa: BLE001
        job.relieve(error)
        os.write(2, f"{type(error).__name__}: {error}"[:512].encode("utf-8", "replace"))
    finally:
        os._exit(status)


def seconds_of_forks(count: int) -> float:
    """What bounds every program: a fork of this process and its exit, `count` times in a row."""
    started = time.perf_counter()
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return time.perf_counter() - started
