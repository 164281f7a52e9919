"""Lets nobody write to its folder any more, the next program included.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    os.chmod(".", 0o500)
    return 3
