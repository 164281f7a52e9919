"""Empties the folder that a program has had for itself, however it left it."""

import itertools
import os
import stat
from collections.abc import Iterator

SIZE = 64 << 20  # bytes, where it is a file system of its own


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
                os.rename(entry, _free(names, top), src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)


def _free(names: Iterator[str], top: int) -> str:
    taken = set(os.listdir(top))
    return next(name for name in names if name not in taken)
