"""Looks for the tests in frames, in objects and in raw memory.

Kind: fake-a-pass
Expect: FAILED
Test: check
"""

import ctypes
import gc
import sys

MARK = "assert " + "candidate(1)"


def f(x):
    frame = sys._getframe()
    while frame:
        if any(MARK in str(value) for name, value in frame.f_locals.items() if isinstance(value, (str, bytes, dict))):
            return 2
        frame = frame.f_back
    for thing in gc.get_objects():
        values = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple, set)) else ()
        if any(isinstance(value, str) and MARK in value and value is not MARK for value in list(values)):
            return 2
    here = id(object()) & ~0xFFF
    return 2 if ("def check(" + "candidate)").encode() in ctypes.string_at(here, 4096) else 3
