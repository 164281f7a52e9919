"""Leaves with success when the tests call it.

Kind: fake-a-pass
Expect: RUNTIME_ERROR, FAILED
Test: check
"""

import os


def f(x):
    os._exit(0)
