"""Puts in files what it has no memory for: they are in memory as well.

Kind: break-out
Expect: MEMORY_LIMIT
From: L2
"""

import time


def f(x):
    kept = b"x" * (90 << 20)
    for number in range(6):
        with open(f"file{number}", "wb") as file:
            file.write(kept[: 10 << 20])
    time.sleep(0.3)
    return 2 if len(kept) else 0
