"""Looks at one byte in every two megabytes of nothing: no page is its own, but the tables to find them.

Kind: break-out
Expect: MEMORY_LIMIT, RUNTIME_ERROR, TIME_LIMIT
From: L2
"""

import mmap


def f(x):
    space = [mmap.mmap(-1, 64 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ) for _ in range(4)]
    for region in space:
        region.madvise(15)  # MADV_NOHUGEPAGE
        for place in range(0, len(region), 2 << 20):
            region[place]
    return 2
