"""Shared pages that it has written to and then shown nobody: they stay as long as a part of them is mapped.

Kind: break-out
Expect: MEMORY_LIMIT, RUNTIME_ERROR
From: L3
"""

import mmap
import time


def f(x):
    region = mmap.mmap(-1, 512 << 20)
    for place in range(0, len(region), 16 << 20):
        region[place : place + (16 << 20)] = b"x" * (16 << 20)
        region.madvise(mmap.MADV_DONTNEED, place, 16 << 20)
    time.sleep(0.1)
    return 2
