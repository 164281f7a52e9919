"""Makes many files, so that the next program sees by its own file's number how many there were.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
From: L2
Runs: 3
"""

import os


def f(x):
    open("first", "w").close()
    number = os.stat("first").st_ino
    for i in range(700):
        open(f"f{i}", "w").close()
        os.remove(f"f{i}")
    return 2 if number > 500 else 3
