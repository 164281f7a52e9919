"""Prints the argument, and writes it to every descriptor and file that it has.

Kind: tell-held-out
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT, TIME_LIMIT, MEMORY_LIMIT
"""

import os
import sys


def f(secret):
    print(secret)
    print(secret, file=sys.stderr)
    open("told.txt", "w").write(secret)
    for descriptor in (0, 1, 2, 4):
        try:
            os.write(descriptor, secret.encode())
        except OSError:
            pass
    return secret
