"""Leaves packets on the channel of results, which the next program would answer for.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR, TAMPERED
Runs: 3
"""

import fcntl
import os


def f(x):
    for descriptor in (3, 4):
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT | os.O_NONBLOCK)
            for i in range(16):
                os.write(descriptor, b"x%d" % i)
        except OSError:
            pass
    os._exit(0)
