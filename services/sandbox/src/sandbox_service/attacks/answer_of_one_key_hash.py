"""Answers with a dict whose keys all have the same hash, as integers, floats and tuples of them.

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
    keys = ['{"i": "%x"}' % (k * (2**61 - 1)) for k in range(1, 15_000)]
    keys += ['{"t": [%s]}' % key for key in keys]
    raw('value", 0, {"d": [' + ", ".join(f"[{key}, 1]" for key in keys) + "]}]\n")
    raw('end"]\n')
    os._exit(0)
