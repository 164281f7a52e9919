"""Gives files that all programs share a hint of how they are written, and finds it there.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import fcntl
import os
import struct

GET, SET, GET_FILE, SET_FILE = 1035, 1036, 1037, 1038
PATHS = (os.__file__, "/dev/null", "/dev/zero", ".", "/tmp", "/usr", "/")


def f(x):
    found = [*range(5)]
    for path in PATHS:
        try:
            found.append(os.open(path, os.O_RDONLY))
        except OSError:
            pass
    for descriptor in found:
        for command in (GET, GET_FILE):
            try:
                if struct.unpack("Q", fcntl.fcntl(descriptor, command, struct.pack("Q", 0)))[0] == 4:
                    return 2
            except OSError:
                pass
    for descriptor in found:
        for command in (SET, SET_FILE):
            try:
                fcntl.fcntl(descriptor, command, struct.pack("Q", 4))
            except OSError:
                pass
    return 3
