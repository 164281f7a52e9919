"""Answers calls that nobody made: below zero, far beyond the last, by no number at all.

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
    for place in ("-1", "1e999", "1" * 5000, '"0"', "null", "[0]", "1.0", "true", str(2**63), "{}"):
        raw(f'value", {place}, 2]\n')
    os._exit(0)
