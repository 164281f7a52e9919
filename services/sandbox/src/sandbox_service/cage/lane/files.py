"""The files of a program: those it finds in its folder, and those that are fetched from there."""

import contextlib
import os
import stat
from collections.abc import Iterator

from sandbox_service.cage.wire import wire

MAX_FILES = 256
# Of the paths in a folder that is fetched: their length in bytes, and how many are looked at.
_MAX_PATH, _MAX_ENTRIES = 1020, 4096
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def take_files(descriptor: int, files: list[tuple[str, int]]) -> None:
    """Writes [name, size] pairs into the current folder, their bytes coming in a row. Names are relative, without "..".

    Raises OSError.
    """
    for name, size in files:
        for place in [place for place, letter in enumerate(name) if letter == "/"]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name[:place])
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
        try:
            left = size
            while left:
                chunk = os.read(descriptor, min(left, 1 << 20))
                if not chunk:
                    raise EOFError("the service closed the connection")
                wire.write_all(target, chunk)
                left -= len(chunk)
        finally:
            os.close(target)


def _can_be_sent(path: str) -> bool:
    """Whether it is UTF-8, as every name in a message, and not too long for the next program to get it."""
    try:
        return len(path.encode()) <= _MAX_PATH
    except UnicodeEncodeError:
        return False


class Fetched:
    """Files that a program left, found without following any link. A name that ends in "/" is a folder.

    Its processes are dead by now: what's there stays as it is.
    """

    def __init__(self, scratch: int, names: list[str], room: int) -> None:
        """`scratch`: a descriptor of the folder. `room`: bytes, of all together."""
        self._scratch = scratch
        self.sizes: list[tuple[str, int]] = []
        for name in names:
            for path, status in self._named(name):
                if stat.S_ISREG(status.st_mode) and status.st_size <= room and len(self.sizes) < MAX_FILES:
                    room -= status.st_size
                    self.sizes.append((path, status.st_size))

    def _named(self, name: str) -> Iterator[tuple[str, os.stat_result]]:
        """What has the name, or lies in the folder of that name, however deep: at most two descriptors are open."""
        waiting, left = [name.rstrip("/")], _MAX_ENTRIES
        while waiting and left:
            path = waiting.pop()
            left -= 1
            try:
                descriptor = self._open(path)
            except OSError:
                continue  # it isn't there, or can't be read
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISDIR(status.st_mode):
                    yield path, status
                elif name.endswith("/"):
                    inner = [f"{path}/{entry}" for entry in os.listdir(descriptor)]
                    waiting += [entry for entry in inner if _can_be_sent(entry)]
            finally:
                os.close(descriptor)

    def _open(self, name: str) -> int:
        folder = os.open(".", _FOLDER, dir_fd=self._scratch)
        try:
            *parents, last = name.split("/")
            for parent in parents:
                inner = os.open(parent, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)

    def send(self, connection: int) -> None:
        """From file to socket within the kernel: what programs leave never enters this process's memory."""
        for name, size in self.sizes:
            descriptor = self._open(name)
            sent = 0
            while sent < size:
                count = os.sendfile(connection, descriptor, sent, size - sent)
                if count == 0:
                    raise SystemExit("a file shrank while it was sent")
                sent += count
            os.close(descriptor)
