"""Reads where nothing is.

Kind: break-out
Expect: RUNTIME_ERROR
"""

import ctypes


def f(x):
    return ctypes.string_at(0)
