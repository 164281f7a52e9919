"""Computes in the kernel: the time of its calls is its own.

Kind: overspend
Expect: TIME_LIMIT
"""

import os


def f(x):
    while sum(os.times()[:2]) < 2:
        os.urandom(1 << 20)
    return 2
