"""Computes for as long as the argument says.

Kind: tell-held-out
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT, TIME_LIMIT, MEMORY_LIMIT
"""

import time


def f(secret):
    end = time.process_time() + (ord(secret[0]) % 7) / 20
    while time.process_time() < end:
        pass
    return 3
