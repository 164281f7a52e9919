"""Starts processes, so that the next program sees by its own number how many there were.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
From: L2
Profile: processes
Runs: 3
"""

import os


def f(x):
    if os.getpid() % 1000 > 60:
        return 2
    for _ in range(60):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    return 3
