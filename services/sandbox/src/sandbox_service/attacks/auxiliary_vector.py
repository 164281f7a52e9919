"""Reads what the kernel put above its stack: names and variables of the program that was started.

Kind: break-out
Expect: FAILED
"""

import ctypes


def f(x):
    libc = ctypes.CDLL(None)
    libc.getauxval.restype = ctypes.c_ulong
    start = libc.getauxval(31)
    block = ctypes.string_at(start - 2048, 2048) if start else b""
    return 2 if any(mark in block for mark in (b"RATCHET_", b"SECRET", b"TOKEN=", b"PASSWORD", b"SSH_")) else 3
