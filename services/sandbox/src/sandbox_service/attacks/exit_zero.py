"""Leaves at once, with success.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""

import os


def f(x):
    os._exit(0)
