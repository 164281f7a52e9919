"""Keeps something in a keyring of the kernel, which the next program could ask for.

Kind: break-out
Expect: FAILED
Runs: 2
"""

import ctypes
import os

ADD, REQUEST, CONTROL = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[os.uname().machine]


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for ring in range(-5, 0):
        if libc.syscall(ADD, b"user", b"ratchet", b"2", 1, ring) >= 0 or libc.syscall(CONTROL, 0, ring, 1) >= 0:
            return 2
    return 2 if libc.syscall(REQUEST, b"user", b"ratchet", None, 0) >= 0 else 3
