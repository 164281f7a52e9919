"""Watches its surroundings by sys.settrace and changes their local variables.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR, TAMPERED
"""

import ctypes
import sys


def trace(frame, event, argument):
    for name in list(frame.f_locals):
        if name in ("index", "expected", "verdict", "passed", "answer"):
            frame.f_locals[name] = True
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 0)
    return trace


def f(x):
    frame = sys._getframe()
    while frame:
        frame.f_trace = trace
        frame = frame.f_back
    sys.settrace(trace)
    return 3
