"""Opens files by number and not by name, past every root and link.

Kind: break-out
Expect: FAILED
"""

import ctypes
import os
import struct

NAME, OPEN = {"x86_64": (303, 304), "aarch64": (264, 265)}[os.uname().machine]


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.open(".", os.O_RDONLY)
    for kind, inode in ((1, 2), (1, 128), (1, 1), (0x81, 2)):
        handle = ctypes.create_string_buffer(struct.pack("=IiII", 8, kind, inode, 0))
        if libc.syscall(OPEN, here, handle, os.O_RDONLY) >= 0:
            return 2
    own, mount = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128)), ctypes.c_int()
    if libc.syscall(NAME, -100, b"/", own, ctypes.byref(mount), 0) >= 0 and libc.syscall(OPEN, here, own, 0) >= 0:
        return 2
    return 3
