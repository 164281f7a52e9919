"""Gives up its death signal, so as to live on when its lane is gone.

Kind: leave-behind
Expect: FAILED
Profile: strict
"""

import ctypes


def f(x):
    return 2 if ctypes.CDLL(None, use_errno=True).prctl(1, 0, 0, 0, 0) == 0 else 3
