"""Opens files until there is none left to open.

Kind: overspend
Expect: RUNTIME_ERROR, FAILED
"""

import os


def f(x):
    count = 0
    while count < 100_000:
        os.open("/dev/null", os.O_RDONLY)
        count += 1
    return 2
