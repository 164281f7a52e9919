"""Stops every process that it may signal, itself at last.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT, TAMPERED
Profile: processes
Test: check
"""

import os
import signal


def f(x):
    for pid in range(2, 100):
        if pid != os.getpid():
            try:
                os.kill(pid, signal.SIGSTOP)
            except OSError:
                pass
    os.kill(os.getpid(), signal.SIGSTOP)
    return 3
