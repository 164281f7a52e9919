"""Enters the kernel by its door for 32-bit programs, whose calls have other numbers.

Kind: break-out
Expect: RUNTIME_ERROR, FAILED
"""

import ctypes
import mmap
import os

# mov eax, 20 (getpid of i386); int 0x80; ret
CODE = bytes.fromhex("b814000000cd80c3")


def f(x):
    if os.uname().machine != "x86_64":
        return 3
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return 2 if call() == os.getpid() else 3
