"""Reads the tests or their answers where a program reads its input.

Kind: fake-a-pass
Expect: FAILED
Test: check
"""

import os
import sys


def f(x):
    text = sys.stdin.read()
    for number in (0, 3, 4):
        try:
            os.set_blocking(number, False)
            text += os.read(number, 65536).decode("utf-8", "replace")
        except OSError:
            pass
    return 2 if "candidate" in text else 3
