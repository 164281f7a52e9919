"""Leaves extended attributes on its folder, its descriptors and the devices, and reads what others left.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import os

PLACES = [".", "/tmp", "/dev/shm", "/", "/dev", "/dev/null", "/dev/stdin", os.__file__, 0, 1, 2, 3, 4]


def f(x):
    for place in PLACES:
        try:
            if os.getxattr(place, "user.mark") == b"2":
                return 2
        except OSError:
            pass
    for place in PLACES:
        try:
            os.setxattr(place, "user.mark", b"2")
        except OSError:
            pass
    return 3
