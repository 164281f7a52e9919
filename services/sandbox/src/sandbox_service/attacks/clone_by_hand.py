"""Makes a process by system calls with and without flags.

Kind: break-out
Expect: FAILED
Profile: strict
Probe: yes
"""

import ctypes
import os

CALLS = {
    "x86_64": ((57,), (58,), (56, 17, 0, 0, 0, 0), (56, 0, 0, 0, 0, 0), (435, 0, 0)),
    "aarch64": ((220, 17, 0, 0, 0, 0), (220, 0, 0, 0, 0, 0), (435, 0, 0)),
}


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    return 2 if any(libc.syscall(*call) >= 0 for call in CALLS[os.uname().machine]) else 3
