"""Changes the exit status when all is over.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
"""

import atexit
import os

atexit.register(os._exit, 0)


def f(x):
    return 3
