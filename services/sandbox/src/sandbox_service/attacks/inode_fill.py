"""Takes all inodes.

Kind: break-out
Expect: RUNTIME_ERROR
"""

import os


def f(x):
    number = 0
    while True:
        os.mkdir(f"/tmp/{number}")
        number += 1
