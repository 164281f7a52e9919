"""Fills the file system of its folder with attributes of the folder itself, which no cleaner of files sees.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
"""

import os


def f(x):
    try:
        for i in range(100_000):
            os.setxattr(".", f"user.{i}", b"x" * 60_000)
    except OSError:
        pass
    try:
        for i in range(100_000):
            os.setxattr(".", f"user.short{i}", b"")
    except OSError:
        pass
    return 3
