"""Sends hundreds of thousands of short frames.

Kind: deny
Expect: TAMPERED, FAILED, RUNTIME_ERROR, OUTPUT_LIMIT, TIME_LIMIT
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


def raw(text):
    data = (frames()._start + text).encode("utf-8", "surrogatepass")
    while data:
        data = data[os.write(3, data) :]


def f(x):
    line = (frames()._start + 'value", 0, 1]\n').encode() * 500
    for _ in range(600):
        view = memoryview(line)
        while view:
            view = view[os.write(3, view) :]
    os._exit(0)
