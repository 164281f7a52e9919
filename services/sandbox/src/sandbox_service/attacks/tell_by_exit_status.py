"""Ends with a status that is a character of the argument.

Kind: tell-held-out
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT, TIME_LIMIT, MEMORY_LIMIT
"""

import os


def f(secret):
    os._exit(ord(secret[0]))
