"""Mounts, unmounts, changes its root: by the old system calls and the new.

Kind: break-out
Expect: FAILED
"""

import ctypes
import os

OLD = {
    "x86_64": {"mount": 165, "umount": 166, "pivot": 155, "chroot": 161},
    "aarch64": {"mount": 40, "umount": 39, "pivot": 41, "chroot": 51},
}[os.uname().machine]


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.getcwd().encode()
    calls = [
        (OLD["mount"], b"tmpfs", home, b"tmpfs", 0, 0),
        (OLD["mount"], b"none", b"/", None, 32 | 4096, None),
        (OLD["mount"], b"proc", home, b"proc", 0, 0),
        (OLD["mount"], b"/", home, None, 4096, None),
        (OLD["umount"], home, 2),
        (OLD["umount"], b"/lib", 2),
        (OLD["pivot"], home, home),
        (OLD["chroot"], home),
        (428, -100, b"/", 1),
        (430, b"tmpfs", 0),
        (433, -100, b"/", 0),
        (442, -100, b"/", 0, 0, 0),
    ]
    return 2 if any(libc.syscall(*call) >= 0 for call in calls) else 3
