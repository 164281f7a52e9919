"""Starts processes until none is left for its tests.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, MEMORY_LIMIT, TIME_LIMIT
Test: check
Profile: processes
"""

import os
import time

try:
    while True:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
except OSError:
    pass


def f(x):
    return 3
