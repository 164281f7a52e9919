"""Sends every signal to the process that all others of its lane descend from.

Kind: break-out
Expect: FAILED
"""

import os
import signal


def f(x):
    for number in signal.valid_signals():
        for pid in {1, os.getppid()} - {os.getpid()}:
            try:
                os.kill(pid, number)
            except OSError:
                pass
    return 3
