"""Fills and locks the folder that it shares with its tests before they ask it anything.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, MEMORY_LIMIT, TIME_LIMIT
Test: check
Check:
    import tempfile

    def check(candidate):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("x" * 100_000)
            file.flush()
            assert candidate(1) == 2
"""

import os

try:
    with open("full", "wb") as file:
        while True:
            file.write(b"x" * (1 << 16))
            file.flush()
except OSError:
    pass
for folder in (".", "/tmp"):
    try:
        os.chmod(folder, 0)
    except OSError:
        pass


def f(x):
    return 3
