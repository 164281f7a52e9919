"""Namespaces, mounts, io_uring, bpf, keyrings.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import ctypes


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    calls = [
        (272, 0x10000000),
        (272, 0x20000),
        (425, 8, 0),
        (321, 0, 0, 0),
        (250, 0, -3, 1),
        (165, 0, b"/tmp", b"tmpfs", 0, 0),
    ]
    calls += [
        (161, b"/tmp"),
        (308, 3, 0),
        (323, 0),
        (298, 0, 0, -1, -1, 0),
        (29, 0, 4096, 0o1600),
        (64, 0, 1, 0o1600),
        (68, 0, 0o1600),
    ]
    return 2 if any(libc.syscall(*call) >= 0 for call in calls) else 3
