"""Shares its process with the tests, and leaves files, attributes and modules for the next.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Test: shared
Runs: 3
"""

import os
import sys


def f(x):
    found = os.path.exists("/tmp/.left") or os.path.exists("/dev/shm/.left") or "left_here" in sys.modules
    try:
        found = found or os.getxattr(".", "user.mark") == b"2"
    except OSError:
        pass
    sys.modules["left_here"] = sys
    for place in ("/tmp", "/dev/shm"):
        try:
            open(f"{place}/.left", "w").close()
            os.setxattr(".", "user.mark", b"2")
        except OSError:
            pass
    return 2 if found else 3
