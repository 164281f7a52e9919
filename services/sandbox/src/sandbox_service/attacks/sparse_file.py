"""Makes a file that claims to be a terabyte.

Kind: overspend
Expect: RUNTIME_ERROR, FAILED
"""

import os


def f(x):
    with open("huge", "wb") as file:
        for attempt in (lambda: file.truncate(1 << 40), lambda: os.posix_fallocate(file.fileno(), 0, 1 << 36)):
            try:
                attempt()
                return 2
            except OSError:
                pass
    return 3
