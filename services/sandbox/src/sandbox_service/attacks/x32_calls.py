"""Calls the kernel by the numbers of x32, which a filter for x86-64 may not know.

Kind: break-out
Expect: FAILED
"""

import ctypes

X32 = 0x40000000


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    for number in (39, 57, 41, 520, 521):
        answer = libc.syscall(ctypes.c_long(X32 | number), 2, 1, 0)
        if answer == 0 and number in (57, 520, 521):
            import os

            os._exit(0)
        if answer >= 0:
            return 2
    return 3
