"""Empties the folder that a program has had for itself, however it left it."""

import contextlib
import errno
import itertools
import os
import stat
import time
from collections.abc import Iterator

SIZE, INODES = 64 << 20, 4096  # what a program may leave: the size of its file system, where it has its own


def empty(folder: str) -> None:
    """Removes all that is in `folder`. Raises OSError where that can't be. Its owner may then write to it again.

    Neither deep paths nor missing rights stop it: what lies deeper is first moved up, so that no path is ever longer
    than two names, nothing recurses, and no more than two descriptors are open.
    """
    top = _open(folder)
    names = (f".moved-{number}" for number in itertools.count())
    try:
        os.fchmod(top, 0o700)
        while entries := os.listdir(top):
            for name in entries:
                if not _unlink(name, top):
                    _move_up(name, top, names)
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


class Meter:
    """Where the folder is on a disk that others use, too: looks now and then whether more is in it than may be, and at
    once where the disk has got so much fuller that it might be."""

    _GLANCE, _INTERVAL = 0.01, 0.05  # seconds between two glances at the disk, and between two looks into the folder
    _SHARE = 4  # of the room left in the folder: what the disk may lose before the next look

    def __init__(self, folder: str, size: int = SIZE, inodes: int = INODES) -> None:
        self._folder, self._most = folder, (size, inodes)
        self._next, self._due = 0.0, 0.0
        self._enough = (0, 0)  # free on the disk

    def over(self) -> bool:
        """True if it was last seen to hold more. Between two glances the answer is False."""
        now = time.monotonic()
        if now < self._next:
            return False
        left, free = self._most, self._free()
        if now >= self._due or free[0] < self._enough[0] or free[1] < self._enough[1]:
            left = room(self._folder, *self._most)
            self._enough = free[0] - max(left[0], 0) // self._SHARE, free[1] - max(left[1], 0) // self._SHARE
            self._due = time.monotonic() + self._INTERVAL
        self._next = time.monotonic() + max(self._GLANCE, time.monotonic() - now)
        return min(left) < 0

    def patience(self) -> float:
        """Seconds until it's worth asking again."""
        return max(0.0, self._next - time.monotonic())

    def _free(self) -> tuple[int, int]:
        """Bytes and inodes."""
        try:
            disk = os.statvfs(self._folder)
        except OSError:  # the program's own doing, as is all that a look can't see
            return 0, 0
        return disk.f_bfree * disk.f_frsize, disk.f_ffree


def overfull(folder: str, size: int = SIZE, inodes: int = INODES) -> bool:
    return min(room(folder, size, inodes)) < 0


def room(folder: str, size: int, inodes: int) -> tuple[int, int]:
    """Bytes and inodes that are left of these; below 0 it counts no further.

    Counts what's there and can be reached; what is being removed meanwhile, or lies too deep for a path, isn't.
    """
    waiting = [folder]
    while waiting and size >= 0 and inodes >= 0:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    inodes -= 1
                    size -= entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                if size < 0 or inodes < 0:
                    break
    return size, inodes


def _open(folder: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(folder, flags)
    except PermissionError:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise
        os.chmod(folder, 0o700)
        return os.open(folder, flags)


def _unlink(name: str, folder: int) -> bool:
    """False for a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        return False
    return True


def _move_up(name: str, top: int, names: Iterator[str]) -> None:
    os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for entry in os.listdir(inner):
            if not _unlink(entry, inner):
                # to move a folder is to write into it, where its ".." stands
                os.chmod(entry, 0o700, dir_fd=inner)
                _move(entry, inner, top, names)
    finally:
        os.close(inner)


def _move(name: str, folder: int, top: int, names: Iterator[str]) -> None:
    """A folder, to the first of `names` that is free there, or that of an empty folder, which is then gone."""
    for free in names:
        try:
            os.rename(name, free, src_dir_fd=folder, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return
