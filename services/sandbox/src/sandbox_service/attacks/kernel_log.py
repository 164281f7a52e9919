"""Reads the log of the kernel, which has its addresses, and asks it to restart.

Kind: break-out
Expect: FAILED
"""

import ctypes
import os

SYSLOG, REBOOT, KEXEC, ACCT, SWAPON = {"x86_64": (103, 169, 246, 163, 167), "aarch64": (116, 142, 104, 89, 224)}[
    os.uname().machine
]


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(4096)
    if libc.syscall(SYSLOG, 3, buffer, 4096) >= 0 or libc.syscall(SYSLOG, 10, 0, 0) >= 0:
        return 2
    return 2 if any(libc.syscall(call, 0, 0, 0, 0) >= 0 for call in (REBOOT, KEXEC, ACCT, SWAPON)) else 3
