"""Prints its output a byte at a time, without a line's end, and surrogates.

Kind: deny
Expect: FAILED, OUTPUT_LIMIT, TIME_LIMIT, RUNTIME_ERROR
Test: stdio
"""

import os

for i in range(60_000):
    os.write(1, b"\xff" if i % 2 else b"\r")
