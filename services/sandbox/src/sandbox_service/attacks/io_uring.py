"""Has the kernel make its system calls for it, past the filter.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import ctypes


def f(x):
    parameters = ctypes.create_string_buffer(256)
    return 2 if ctypes.CDLL(None, use_errno=True).syscall(425, 8, parameters) >= 0 else 3
