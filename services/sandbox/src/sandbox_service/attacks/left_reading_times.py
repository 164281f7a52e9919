"""Reads a library file that nobody reads: its access time is a mark that all lanes would see.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
From: L2
Runs: 3
"""

import os
import time

PATH = os.path.join(os.path.dirname(os.__file__), "this.py")


def f(x):
    before = os.stat(PATH).st_atime
    with open(PATH, "rb") as file:
        file.read()
    if os.stat(PATH).st_atime != before or time.time() - before < 2:
        return 2
    return 3
