"""Computes in bursts between which it stops itself, so that each look finds it stopped.

Kind: overspend
Expect: TIME_LIMIT
Profile: processes
"""

import os
import signal
import time


def f(x):
    mine = os.getpid()
    read, write = os.pipe()
    if os.fork() == 0:
        while True:
            time.sleep(0.012)
            os.kill(mine, signal.SIGSTOP)
            time.sleep(0.002)
            os.kill(mine, signal.SIGCONT)
    while time.process_time() < 1.5:
        pass
    return 2
