"""Takes capabilities, sets the bits that would bring them back.

Kind: break-out
Expect: FAILED
"""

import ctypes


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)) == 0:
        return 2
    held = (ctypes.c_uint32 * 6)()
    if libc.capget(header, held) == 0 and any(held):
        return 2
    if libc.prctl(28, 0x3F, 0, 0, 0) == 0:
        return 2
    return 2 if any(libc.prctl(47, 2, number, 0, 0) == 0 for number in range(41)) else 3
