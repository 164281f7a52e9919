"""Calls what kernels got lately and what they keep from long ago: none of it is there.

Kind: break-out
Expect: FAILED, RUNTIME_ERROR
"""

import ctypes
import errno
import os

LATE = [335, 336, *range(453, 463), 464, 465, 467, 468, 469, 470, 471, 472, 500, 1000]
OLD = {
    "x86_64": [134, 136, 139, 153, 154, 156, 172, 173, 180, 207, 208, 209, 210, 212, 216, 227, 252, 274, 278, 303, 333],
    "aarch64": [1, 2, 3, 4, 18, 31, 42, 58, 75, 100, 112, 234, 264, 292],
}


def f(x):
    call = ctypes.CDLL(None, use_errno=True).syscall
    for number in LATE + OLD[os.uname().machine]:
        ctypes.set_errno(0)
        call(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
        if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
            return 2
    return 3
