"""Takes what the whole machine has a fixed number of: contexts of aio, watches, keys, user namespaces.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
"""

import ctypes
import os

NUMBERS = {"x86_64": (206, 248, 272), "aarch64": (0, 217, 97)}
libc = ctypes.CDLL(None, use_errno=True)


def f(x):
    setup, add_key, unshare = NUMBERS[os.uname().machine]
    context = ctypes.c_ulong()
    if libc.syscall(setup, 1024, ctypes.byref(context)) == 0:
        return 2
    if libc.syscall(add_key, b"user", b"mark", b"2", 1, -4) > 0:
        return 2
    if libc.syscall(unshare, 0x10000000) == 0:
        return 2
    watchers = sum(libc.inotify_init1(0) >= 0 for _ in range(64))
    return 2 if watchers > 16 else 3
