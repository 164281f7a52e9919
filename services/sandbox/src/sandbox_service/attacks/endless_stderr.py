"""Prints for ever, to the other stream, past the limit of one write.

Kind: overspend
Expect: TIME_LIMIT
"""

import os


def f(x):
    while True:
        os.write(2, b"x" * 65536)
