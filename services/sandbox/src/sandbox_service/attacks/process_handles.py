"""Takes open files out of its parent by a handle on it.

Kind: break-out
Expect: FAILED
"""

import ctypes
import os


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in (1, os.getppid()):
        handle = libc.syscall(434, pid, 0)
        if handle >= 0 and any(libc.syscall(438, handle, number, 0) >= 0 for number in range(64)):
            return 2
    return 3
