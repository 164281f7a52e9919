"""A view of a folder in which the files of user 0 are another's: idmapped mounts, by raw system calls. See
mount_setattr(2); Linux 5.12, and 5.19 below an overlay."""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_service.cage.kernel import libc

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_HERE, _CLONE, _OF_EMPTY_PATH, _FROM_EMPTY_PATH = -100, 1, 0x1000, 4
_RDONLY, _NOSUID, _NODEV, _IDMAP = 1, 2, 4, 0x100000


def mount(source: str, target: str, uid: int) -> None:
    """Read-only. `uid`: user and group that the files of user 0 and group 0 belong to there. Raises OSError."""
    tree = libc.syscall(_OPEN_TREE, _HERE, os.fsencode(source), _CLONE | os.O_CLOEXEC)
    try:
        with _namespace_of(uid) as namespace:
            attributes = struct.pack("=QQQQ", _RDONLY | _NOSUID | _NODEV | _IDMAP, 0, 0, namespace)
            libc.syscall(_MOUNT_SETATTR, tree, b"", _OF_EMPTY_PATH, attributes, len(attributes))
        libc.syscall(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(target), _FROM_EMPTY_PATH)
    finally:
        os.close(tree)


@contextmanager
def _namespace_of(uid: int) -> Iterator[int]:
    """A descriptor of a user namespace in which `uid` is user 0; a child holds it until it has been opened."""
    reader, writer = os.pipe()
    ready, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writer)
            libc.unshare(libc.CLONE_NEWUSER)
            os.write(say, b".")
            os.read(reader, 1)
        finally:
            os._exit(0)
    os.close(say)
    try:
        if not os.read(ready, 1):
            raise OSError("no user namespace could be made to map the users of files")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{name}", "w") as file:
                file.write(f"0 {uid} 1")
        namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield namespace
        finally:
            os.close(namespace)
    finally:
        for descriptor in (reader, writer, ready):
            os.close(descriptor)
        os.waitpid(child, 0)
