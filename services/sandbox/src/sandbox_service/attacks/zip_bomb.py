"""Unpacks a little into very much.

Kind: break-out
Expect: MEMORY_LIMIT, TIME_LIMIT
"""

import bz2


def f(x):
    packed = bz2.compress(b"\0" * (1 << 22))
    return len(b"".join(bz2.decompress(packed * 64) for _ in range(8)))
