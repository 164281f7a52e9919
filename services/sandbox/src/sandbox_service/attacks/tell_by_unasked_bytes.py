"""Writes the argument where its answers go, to see it among what was found.

Kind: tell-held-out
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT, TIME_LIMIT, MEMORY_LIMIT
"""

import os


def f(secret):
    os.write(3, secret.encode() + b"\n")
    return 3
