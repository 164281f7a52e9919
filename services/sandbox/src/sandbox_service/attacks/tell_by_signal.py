"""Ends by a signal that is a character of the argument.

Kind: tell-held-out
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT, TIME_LIMIT, MEMORY_LIMIT
"""

import os


def f(secret):
    os.kill(os.getpid(), 1 + ord(secret[0]) % 15)
    return 3
