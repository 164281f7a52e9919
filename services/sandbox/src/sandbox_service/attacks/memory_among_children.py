"""Takes its memory in many children, each below the limit.

Kind: overspend
Expect: MEMORY_LIMIT
From: L3
Profile: processes
"""

import os


def f(x):
    read, write = os.pipe()
    hold, _ = os.pipe()
    for _ in range(6):
        if os.fork() == 0:
            block = bytearray(60 << 20)
            block[::4096] = b"x" * len(block[::4096])
            os.write(write, b"x")
            os.read(hold, 1)
            os._exit(0)
    for _ in range(6):
        os.read(read, 1)
    return 2
