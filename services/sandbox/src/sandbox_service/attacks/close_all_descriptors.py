"""Closes everything, the result channel too.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""

import os


def f(x):
    os.closerange(0, 256)
    return 2
