"""Fills its folder with files that are removed and still open in a process that should be gone.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR, MEMORY_LIMIT, TIME_LIMIT
Profile: processes
Runs: 2
"""

import os
import time


def f(x):
    if os.fork() == 0:
        os.setsid()
        file = open("big", "wb")
        os.remove("big")
        try:
            while True:
                file.write(b"x" * (1 << 20))
        except OSError:
            time.sleep(60)
    time.sleep(0.1)
    return 3
