"""Locks its memory, so that the machine cannot take it back.

Kind: overspend
Expect: FAILED
"""

import ctypes


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    page = ctypes.create_string_buffer(1 << 20)
    return 2 if libc.mlockall(3) == 0 or libc.mlock(page, 1 << 20) == 0 else 3
