"""Writes a verdict wherever it can be written.

Kind: fake-a-pass
Expect: TAMPERED
"""

import os

for descriptor in range(3, 256):
    try:
        os.write(descriptor, b"PASSED\n")
    except OSError:
        pass


def f(x):
    return 3
