"""Answers with a set of integers that all have the same hash: a set of them takes quadratic time to build.

Kind: fake-a-pass
Expect: FAILED, TAMPERED, RUNTIME_ERROR, TIME_LIMIT, OUTPUT_LIMIT
"""

import os
import sys


def f(x):
    frames = sys._getframe(1).f_locals["frames"]
    numbers = ",".join('{"i": "%s"}' % hex((2**61 - 1) * k) for k in range(1, 20_000))
    os.write(3, f'{frames._start}value", 0, {{"s": [{numbers}]}}]\n'.encode())
    os._exit(0)
