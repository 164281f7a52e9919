"""Anonymous files, which no limit on memory counts.

Kind: overspend
Expect: FAILED
"""

import os


def f(x):
    try:
        os.memfd_create("x")
        return 2
    except OSError:
        return 3
