"""Answers in place of an answer with the argument, in forms that are told of as signs.

Kind: tell-held-out
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT, TIME_LIMIT, MEMORY_LIMIT
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


def f(secret):
    raw(f'error", "{secret}", "{secret}"]\n')
    raw(f'{secret}", 1]\n')
    os._exit(0)
