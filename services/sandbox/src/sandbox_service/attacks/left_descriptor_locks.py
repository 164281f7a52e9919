"""Locks its descriptors and its folder by every kind of lock, and finds those of a program before it.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import fcntl
import os
import struct

OFD_GET, OFD_SET = 36, 37
WHOLE = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)


def places():
    for path in (".", "/tmp", "/dev/null", "/dev/zero", "/dev/stdin", "/proc/self/fd/1", "/proc/self/fd/2"):
        for flags in (os.O_RDWR, os.O_RDONLY):
            try:
                yield os.open(path, flags | os.O_NONBLOCK)
                break
            except OSError:
                pass
    yield from range(5)


def f(x):
    found = list(places())
    for descriptor in found:
        for command in (fcntl.F_GETLK, OFD_GET):
            try:
                # A lock to read is somebody else's: dockerd has one on /dev/null.
                if struct.unpack_from("h", fcntl.fcntl(descriptor, command, WHOLE))[0] == fcntl.F_WRLCK:
                    return 2
            except OSError:
                pass
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return 2
        except OSError:
            pass
    for descriptor in found:
        for command in (OFD_SET, fcntl.F_SETLK):
            try:
                fcntl.fcntl(descriptor, command, WHOLE)
            except OSError:
                pass
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
    return 3
