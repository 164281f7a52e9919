"""Leaves a mark in the times of its folder, of pipes and of devices.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import os

PLACES = [".", "/tmp", "/dev/shm", "/", "/dev", "/dev/null", "/dev/zero", "/dev/urandom", os.__file__, 0, 1, 2, 3, 4]
MARK = 86_400 * 365


def f(x):
    for place in PLACES:
        try:
            if int(os.stat(place).st_mtime) == MARK:
                return 2
        except OSError:
            pass
    for place in PLACES:
        try:
            os.utime(place, (MARK, MARK))
        except OSError:
            pass
    return 3
