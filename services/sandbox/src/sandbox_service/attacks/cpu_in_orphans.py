"""Computes in sessions of their own, in children of children that have ended.

Kind: break-out
Expect: TIME_LIMIT, RUNTIME_ERROR
From: L2
"""

import os
import time


def f(x):
    reader, writer = os.pipe()
    for _ in range(40):
        child = os.fork()
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                started = time.process_time()
                while time.process_time() < started + 0.05:
                    pass
            os._exit(0)
        os.waitpid(child, 0)
    os.close(writer)
    os.read(reader, 1)
    return 2
