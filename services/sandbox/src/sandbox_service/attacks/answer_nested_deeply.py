"""Answers with what is nested a hundred thousand deep.

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
    raw('value", 0, ' + "[" * 100_000 + "]" * 100_000 + "]\n")
    raw('value", 0, ' + '{"t": [' * 50_000 + "]}" * 50_000 + "]\n")
    os._exit(0)
