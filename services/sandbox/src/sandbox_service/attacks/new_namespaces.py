"""Enters fresh namespaces, where it would be root.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import ctypes
import os

UNSHARE, SETNS, CLONE = {"x86_64": (272, 308, 56), "aarch64": (97, 268, 220)}[os.uname().machine]
KINDS = (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80)


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in KINDS:
        if libc.syscall(UNSHARE, kind) >= 0 or libc.syscall(SETNS, 0, kind) >= 0:
            return 2
        # the bits of the last one mean a signal there
        made = libc.syscall(CLONE, kind | 17, 0, 0, 0, 0) if kind > 0xFF else -1
        if made == 0:
            os._exit(0)
        if made > 0:
            return 2
    return 3
