"""Makes a process by system calls with and without flags.

Kind: break-out
Expect: FAILED
Profile: strict
Probe: yes
"""

import ctypes


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((57,), (58,), (56, 17, 0, 0, 0, 0), (56, 0, 0, 0, 0, 0), (435, 0, 0)):
        if libc.syscall(*call) >= 0:
            return 2
    return 3
