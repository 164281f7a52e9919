"""Sends a megabyte of empty lines as results.

Kind: deny
Expect: TAMPERED, FAILED, RUNTIME_ERROR, OUTPUT_LIMIT
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
    for _ in range(16):
        view = memoryview(b"\n" * 65536)
        while view:
            view = view[os.write(3, view) :]
    os._exit(0)
