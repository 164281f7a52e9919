"""Leaves folders side by side and within each other, as many as there is room for.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT, MEMORY_LIMIT
"""

import os


def f(x):
    try:
        for i in range(3000):
            os.mkdir(f"d{i}")
    except OSError:
        pass
    try:
        os.chdir("d0")
        for _ in range(1000):
            os.mkdir("d")
            os.chdir("d")
    except OSError:
        pass
    return 3
