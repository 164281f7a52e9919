"""Looks for the answer in everything that can be read.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: stdio
"""

import os

found = b""
for number in range(3, 64):
    try:
        os.set_blocking(number, False)
        found += os.read(number, 65536)
    except OSError:
        pass
print("2" if found else "3")
