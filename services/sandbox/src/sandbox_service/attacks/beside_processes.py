"""Runs twice at a time: looks for the other among the processes, and sends it a signal.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
At once: 2
Runs: 2
"""

import os
import signal
import time

seen = []


def f(x):
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    until = time.time() + 0.2
    while time.time() < until:
        for pid in range(2, 400):
            if pid != os.getpid():
                try:
                    os.kill(pid, signal.SIGUSR1)
                except OSError:
                    pass
        if seen:
            return 2
        time.sleep(0.03)
    return 3
