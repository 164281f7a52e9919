"""Is awake only when somebody has a reason to look: it prints whenever it has slept.

Kind: break-out
Expect: TIME_LIMIT
"""

import os
import time


def f(x):
    end = time.monotonic() + 6
    while time.monotonic() < end:
        os.write(1, b".")
        sum(range(20_000))
        time.sleep(0.03)
    return 2
