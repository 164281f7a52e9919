"""Signals its parent, its group and everybody.

Kind: break-out
Expect: FAILED
Profile: strict
Probe: yes
"""

import os
import signal


def f(x):
    for pid in (1, os.getppid(), -1, 0, *range(2, 50)):
        if pid == os.getpid():
            continue
        for number in (signal.SIGKILL, signal.SIGINT, signal.SIGSTOP, signal.SIGTERM):
            try:
                os.kill(pid, number)
                return 2
            except OSError:
                pass
    return 3
