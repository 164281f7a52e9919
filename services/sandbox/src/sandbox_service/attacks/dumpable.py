"""Makes its memory readable for a handler of crashes that the machine may have.

Kind: break-out
Expect: FAILED
Profile: strict
"""

import ctypes


def f(x):
    return 2 if ctypes.CDLL(None, use_errno=True).prctl(4, 1, 0, 0, 0) == 0 else 3
