"""Leaves folders that a recursive removal does not survive, and takes the rights on them away.

Kind: break-out
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT
"""

import os


def f(x):
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    os.chmod("..", 0)
    return 3
