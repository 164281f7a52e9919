"""Traces its parent, reads and writes its memory, sets its limits.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import ctypes
import os
import resource

READ, WRITE = {"x86_64": (310, 311), "aarch64": (270, 271)}[os.uname().machine]
ATTACH, SEIZE = 16, 0x4206


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in (1, os.getppid()):
        if libc.ptrace(ATTACH, pid, 0, 0) == 0 or libc.ptrace(SEIZE, pid, 0, 0) == 0:
            return 2
        if libc.syscall(READ, pid, 0, 0, 0, 0, 0) >= 0 or libc.syscall(WRITE, pid, 0, 0, 0, 0, 0) >= 0:
            return 2
        try:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))
            return 2
        except OSError:
            pass
    return 3
