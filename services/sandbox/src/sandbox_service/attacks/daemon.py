"""Leaves a child behind.

Kind: leave-behind
Expect: RUNTIME_ERROR, FAILED
"""

import os


def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                pass
        os._exit(0)
    return 3
