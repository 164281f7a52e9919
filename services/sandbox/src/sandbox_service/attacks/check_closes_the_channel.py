"""Hangs up on the tests when they call.

Kind: fake-a-pass
Expect: RUNTIME_ERROR, FAILED, TAMPERED
Test: check
"""

import os


def f(x):
    os.closerange(3, 64)
