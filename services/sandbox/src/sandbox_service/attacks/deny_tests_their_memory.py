"""Takes nearly all memory before its tests are read, so that they fail for want of it.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, MEMORY_LIMIT, TIME_LIMIT
Test: check
"""

kept = []
try:
    while True:
        kept.append(bytearray(b"x") * (1 << 18))
except MemoryError:
    kept.pop()


def f(x):
    return 3
