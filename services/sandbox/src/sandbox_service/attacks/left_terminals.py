"""Opens terminals and leaves their numbers taken.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import os


def f(x):
    try:
        master, slave = os.openpty()
    except OSError:
        return 3
    return 2 if os.ttyname(slave) != "/dev/pts/0" else 3
