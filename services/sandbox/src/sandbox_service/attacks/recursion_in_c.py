"""Overflows the stack of C.

Kind: break-out
Expect: RUNTIME_ERROR, TIME_LIMIT
"""

import sys

sys.setrecursionlimit(10**9)


class Deep:
    def __repr__(self):
        return repr([self])


def f(x):
    return repr(Deep())
