"""The files of a program: those it finds in its folder, and those that are fetched from there."""

import itertools
import os
import stat
from collections.abc import Iterator

import wire

MAX_FETCHED, MAX_FILES = 16 << 20, 256
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def take_files(descriptor: int, files: list[tuple[str, int]]) -> None:
    """Writes [name, size] pairs into the current folder, their bytes coming in a row. Names are relative, without "..".

    Raises OSError.
    """
    for name, size in files:
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
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


class Fetched:
    """Files that a program left, found without following any link. A name that ends in "/" is a folder.

    Its processes are dead by now: what's there stays as it is.
    """

    def __init__(self, scratch: str, names: list[str]) -> None:
        self._scratch = scratch
        self.sizes: list[tuple[str, int]] = []
        room = MAX_FETCHED
        for name in itertools.chain.from_iterable(self._named(name) for name in names):
            try:
                descriptor = self._open(name)
            except OSError:
                continue  # it isn't there, or is no plain file
            status = os.fstat(descriptor)
            os.close(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_size <= room and len(self.sizes) < MAX_FILES:
                room -= status.st_size
                self.sizes.append((name, status.st_size))

    def _named(self, name: str) -> Iterator[str]:
        if not name.endswith("/"):
            yield name
            return
        try:
            top = self._open(name.rstrip("/"))
        except OSError:
            return
        try:
            for folder, _, files, _ in os.fwalk(dir_fd=top):
                yield from (os.path.normpath(os.path.join(name, folder, file)) for file in files)
        finally:
            os.close(top)

    def _open(self, name: str) -> int:
        folder = os.open(self._scratch, _FOLDER)
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
