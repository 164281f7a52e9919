"""Sets the flags of a file system on its folder (chattr), which stay where files are removed.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import fcntl
import os
import struct

GET, SET, NO_DUMP, APPEND, IMMUTABLE = 0x80086601, 0x40086602, 0x40, 0x20, 0x10


def f(x):
    for folder in (".", "/tmp", "/dev/shm"):
        try:
            descriptor = os.open(folder, os.O_RDONLY)
            flags = struct.unpack("l", fcntl.ioctl(descriptor, GET, struct.pack("l", 0)))[0]
            if flags & (NO_DUMP | APPEND | IMMUTABLE):
                return 2
        except OSError:
            continue
        for more in (NO_DUMP, APPEND, IMMUTABLE):
            try:
                fcntl.ioctl(descriptor, SET, struct.pack("l", flags | more))
            except OSError:
                pass
    return 3
