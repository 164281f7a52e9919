"""Sleeps while its children compute, each for less than the limit, one after the other.

Kind: overspend
Expect: TIME_LIMIT
Profile: processes
"""

import os
import time


def f(x):
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            while time.process_time() < 0.4:
                pass
            os._exit(0)
        os.waitpid(pid, 0)
    return 2
