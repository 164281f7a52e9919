"""Shared memory, semaphores and queues of System V and POSIX, which outlive a program.

Kind: break-out
Expect: FAILED
"""

import ctypes
import os

SHMGET, SEMGET, MSGGET, MQ_OPEN = {"x86_64": (29, 64, 68, 240), "aarch64": (194, 190, 186, 180)}[os.uname().machine]


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    calls = [
        (SHMGET, 77, 4096, 0o1600),
        (SEMGET, 77, 1, 0o1600),
        (MSGGET, 77, 0o1600),
        (MQ_OPEN, b"q", 0o102, 0o600, None),
    ]
    return 2 if any(libc.syscall(*call) >= 0 for call in calls) else 3
