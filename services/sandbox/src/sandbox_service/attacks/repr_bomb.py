"""A value whose repr leaves the process by exception.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
"""

import sys


class Bomb:
    def __repr__(self):
        sys.exit(0)


def f(x):
    return Bomb()
