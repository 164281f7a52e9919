"""Takes three times its limit for a moment, and has given it back when it's done.

Kind: break-out
Expect: MEMORY_LIMIT
"""


def f(x):
    return 2 if len(b"x" * (384 << 20)) else 0
