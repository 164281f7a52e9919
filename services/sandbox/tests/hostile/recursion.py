"""Calls itself for ever.

Expect: RUNTIME_ERROR, MEMORY_LIMIT, TIME_LIMIT
"""

import sys

sys.setrecursionlimit(10**9)


def f(x):
    return f(x)
