"""Raises an exit with success into the tests.

Kind: fake-a-pass
Expect: RUNTIME_ERROR, FAILED
Test: check
"""

import sys


def f(x):
    sys.exit(0)
