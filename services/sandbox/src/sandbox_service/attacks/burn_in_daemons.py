"""Computes in processes that are nobody's children any more, while it waits itself.

Kind: overspend
Expect: TIME_LIMIT
Profile: processes
"""

import os
import time


def f(x):
    read, write = os.pipe()
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while time.process_time() < 0.7:
                    pass
                os.write(write, b"x")
            os._exit(0)
        os.wait()
    for _ in range(4):
        os.read(read, 1)
    return 2
