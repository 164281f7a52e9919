"""Computes in children that live for less than a look and are reaped by the kernel, which forgets their time.

Kind: overspend
Expect: TIME_LIMIT
Profile: processes
"""

import os
import signal
import time


def f(x):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    read, write = os.pipe()
    burnt = 0.0
    while burnt < 2.5:
        if os.fork() == 0:
            while time.process_time() < 0.016:
                pass
            os.write(write, b"x")
            os._exit(0)
        os.read(read, 1)
        burnt += 0.016
    return 2
