"""Puts a filter that allows all above the one it has, and takes back that it gave up privileges.

Kind: break-out
Expect: FAILED
"""

import ctypes
import os
import struct

SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
FORBIDDEN = {"x86_64": 272, "aarch64": 97}[os.uname().machine]


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(struct.pack("@HP", 1, ctypes.addressof(code)))
    libc.prctl(22, 2, program, 0, 0)
    libc.syscall(SECCOMP, 1, 0, program)
    libc.prctl(38, 0, 0, 0, 0)
    if libc.prctl(39, 0, 0, 0, 0) != 1:
        return 2
    return 2 if libc.syscall(FORBIDDEN, 0x10000000) >= 0 else 3
