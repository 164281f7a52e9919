"""Leaves segments, semaphores and queues by name and by key for the next program.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import ctypes
import mmap
import os

NUMBERS = {"x86_64": (29, 64, 68, 240), "aarch64": (194, 190, 186, 180)}
libc = ctypes.CDLL(None, use_errno=True)
CREATE = 0o1000


def f(x):
    shm, sem, msg, queue = NUMBERS[os.uname().machine]
    if libc.syscall(shm, 77, 0, 0) >= 0 or libc.syscall(sem, 77, 0, 0) >= 0 or libc.syscall(msg, 77, 0) >= 0:
        return 2
    if libc.syscall(queue, b"q", 0, 0, None) >= 0:
        return 2
    for name in ("/dev/shm/mark", "/dev/mqueue/mark"):
        if os.path.exists(name):
            return 2
        try:
            open(name, "w").close()
        except OSError:
            pass
    libc.syscall(shm, 77, 4096, CREATE | 0o600)
    libc.syscall(sem, 77, 1, CREATE | 0o600)
    libc.syscall(msg, 77, CREATE | 0o600)
    libc.syscall(queue, b"q", 0o102, 0o600, None)
    try:
        if open("/proc/sys/kernel/shm_next_id").read().strip() not in ("-1", "0"):
            return 2
    except OSError:
        pass
    return 3
