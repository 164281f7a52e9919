"""Takes all inodes.

Kind: overspend
Expect: RUNTIME_ERROR, MEMORY_LIMIT, TIME_LIMIT
"""

import os


def f(x):
    number = 0
    while True:
        os.mkdir(str(number))
        number += 1
