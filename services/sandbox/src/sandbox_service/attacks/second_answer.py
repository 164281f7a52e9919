"""Answers twice: first wrong, then right.

Kind: fake-a-pass
Expect: TAMPERED, FAILED, RUNTIME_ERROR
"""

import os
import sys


def frames():
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == "Frames":
                return value
        frame = frame.f_back


def f(x):
    found = frames()
    found.send("value", 0, 3)
    found.send("value", 0, 2)
    found.send("value", 1, 2)
    found.send("end")
    os._exit(0)
