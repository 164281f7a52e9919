"""Looks for open files that it was not given.

Kind: break-out
Expect: FAILED
"""

import os

# standard input, output, error, and the two ways out that the sandbox gives it
GIVEN = 5


def f(x):
    for number in range(GIVEN, 4096):
        try:
            os.fstat(number)
            return 2
        except OSError:
            pass
    return 3
