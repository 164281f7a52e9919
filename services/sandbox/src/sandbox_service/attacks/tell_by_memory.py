"""Takes as much memory as the argument says.

Kind: tell-held-out
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT, TIME_LIMIT, MEMORY_LIMIT
"""


def f(secret):
    kept = bytearray((ord(secret[0]) % 7) * (10 << 20))
    kept[::4096] = b"x" * len(kept[::4096])
    return 3
