"""Computes in children that nobody waits for, each gone before anybody can have looked at it.

Kind: break-out
Expect: TIME_LIMIT, RUNTIME_ERROR
From: L2
"""

import os
import signal
import time


def f(x):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(200):
        reader, writer = os.pipe()
        if os.fork() == 0:
            started = time.process_time()
            while time.process_time() < started + 0.012:
                pass
            os._exit(0)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
    return 2
