"""Answers in bytes that are no text.

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
    start = frames()._start.encode()
    os.write(3, start + b'value", 0, "\xff\xfe\x00"]\n' + start + b'raised", 0, "\xff", "\x00", []]\n\x00\n')
    os._exit(0)
