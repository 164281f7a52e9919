"""Leaves with success past the interpreter, by the library and by the kernel.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""

import ctypes
import os

EXIT_GROUP = {"x86_64": 231, "aarch64": 94}[os.uname().machine]


def f(x):
    ctypes.CDLL(None).syscall(EXIT_GROUP, 0)
    ctypes.CDLL(None)._exit(0)
