"""Prints a million tokens, which the comparison would make objects of.

Kind: deny
Expect: FAILED, OUTPUT_LIMIT
Test: stdio
"""

import os

for _ in range(32):
    os.write(1, b"2 " * 32_000)
