"""Shared mappings, which a limit on private memory does not count.

Kind: overspend
Expect: RUNTIME_ERROR, MEMORY_LIMIT
"""

import mmap


def f(x):
    maps = []
    while True:
        maps.append(mmap.mmap(-1, 64 << 20))
        for page in range(0, 64 << 20, 4096):
            maps[-1][page] = 1
