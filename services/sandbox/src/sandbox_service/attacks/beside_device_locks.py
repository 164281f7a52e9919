"""Runs twice at a time: one locks a device that both see, the other finds it locked.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
From: L3
At once: 2
Runs: 2
"""

import fcntl
import os
import struct
import time

PATHS = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
WHOLE = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
SHARED = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0)


def f(x):
    for path in PATHS:
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 2
        except OSError:
            pass
        for kind in (WHOLE, SHARED):
            try:
                fcntl.fcntl(descriptor, fcntl.F_SETLK, kind)
            except BlockingIOError:
                return 2
            except OSError:
                pass
    time.sleep(0.15)
    return 3
