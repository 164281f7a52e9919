"""Loads programs and makes maps in the kernel, counts its events, handles its page faults.

Kind: break-out
Expect: FAILED
"""

import ctypes
import os

BPF, PERF, FAULTS = {"x86_64": (321, 298, 323), "aarch64": (280, 241, 282)}[os.uname().machine]


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    array = (ctypes.c_uint32 * 32)(2, 4, 8, 1)
    if libc.syscall(BPF, 0, array, 72) >= 0:
        return 2
    events = (ctypes.c_uint32 * 32)(1, 128)
    if libc.syscall(PERF, events, 0, -1, -1, 0) >= 0:
        return 2
    return 2 if libc.syscall(FAULTS, 1) >= 0 else 3
