"""Leaves politely.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""

import sys


def f(x):
    print("PASSED")
    sys.exit(0)
