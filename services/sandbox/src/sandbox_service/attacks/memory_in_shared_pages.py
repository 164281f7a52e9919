"""Shared pages that it has written to and no longer maps: they stay as long as a part of what they belong to is mapped.

Kind: overspend
Expect: MEMORY_LIMIT, RUNTIME_ERROR, TIME_LIMIT, FAILED
"""

import mmap
import time


def f(x):
    regions = [mmap.mmap(-1, 1 << 20) for _ in range(512)]
    for region in regions:
        region[:] = b"x" * len(region)
        region.madvise(mmap.MADV_DONTNEED)
    time.sleep(0.1)
    return 2 if all(region[-1] for region in regions) else 0
