"""Leaves locks and shared mappings of files that all programs read.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import fcntl
import os


def f(x):
    for path in (os.__file__, "/dev/null", "/dev/urandom"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 2
        except OSError:
            pass
    return 3
