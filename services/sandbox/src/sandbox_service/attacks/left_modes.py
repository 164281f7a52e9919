"""Leaves a mark in the modes of its folder, of its standard streams and of devices.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import os
import stat

PLACES = [".", "/tmp", "/dev/shm", "/dev/null", "/dev/zero", 0, 1, 2, 3, 4]
MARK = 0o1755


def f(x):
    for place in PLACES:
        try:
            if stat.S_IMODE(os.stat(place).st_mode) == MARK:
                return 2
        except OSError:
            pass
    for place in PLACES:
        try:
            os.chmod(place, MARK)
        except OSError:
            pass
    return 3
