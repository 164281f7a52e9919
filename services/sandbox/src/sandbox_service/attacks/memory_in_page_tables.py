"""Takes memory in page tables: one byte in each of many far pages.

Kind: overspend
Expect: MEMORY_LIMIT, RUNTIME_ERROR, FAILED
"""

import mmap


def f(x):
    kept = []
    for _ in range(200):
        block = mmap.mmap(-1, 1 << 30)
        kept.append(block)
        for at in range(0, len(block), 2 << 20):
            block[at : at + 1]
    return 2
