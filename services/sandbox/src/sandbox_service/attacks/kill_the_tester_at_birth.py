"""Shoots at every process that appears, to hit the tester before it has read the tests.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT, TAMPERED, MEMORY_LIMIT
Profile: processes
Test: check
Runs: 3
"""

import os
import signal
import time

for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        mine = os.getpid()
        until = time.time() + 0.4
        while time.time() < until:
            for pid in range(2, 40):
                if pid not in (mine, os.getppid()):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except OSError:
                        pass
        os._exit(0)
time.sleep(0.05)


def f(x):
    return 3
