"""Has the kernel signal it as often as it can.

Kind: break-out
Expect: FAILED, TIME_LIMIT, RUNTIME_ERROR
"""

import signal
import time


def f(x):
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.signal(signal.SIGVTALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 1e-6, 1e-6)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1e-6, 1e-6)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    return 3
