"""Traces its parent, reads its memory, sets its limits.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import ctypes
import os
import resource


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in (1, os.getppid()):
        if libc.ptrace(16, pid, 0, 0) == 0:
            return 2
        if libc.syscall(310, pid, 0, 0, 0, 0, 0) >= 0:
            return 2
        try:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))
            return 2
        except OSError:
            pass
    return 3
