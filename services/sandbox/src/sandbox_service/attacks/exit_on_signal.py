"""Leaves with success from a signal handler.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""

import os
import signal
import time


def f(x):
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(0.4)
    return 3
