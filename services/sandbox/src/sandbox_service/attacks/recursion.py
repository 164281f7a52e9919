"""Calls itself for ever.

Kind: break-out
Expect: RUNTIME_ERROR, MEMORY_LIMIT, TIME_LIMIT
"""

import sys

sys.setrecursionlimit(10**9)


def f(x):
    return f(x)
