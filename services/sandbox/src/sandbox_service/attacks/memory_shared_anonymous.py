"""Takes memory that is shared with nobody: it counts as no data of a process.

Kind: overspend
Expect: MEMORY_LIMIT, RUNTIME_ERROR, FAILED
"""

import mmap


def f(x):
    blocks = []
    for _ in range(40):
        block = mmap.mmap(-1, 16 << 20)
        for at in range(0, len(block), 4096):
            block[at] = 1
        blocks.append(block)
    return 2
