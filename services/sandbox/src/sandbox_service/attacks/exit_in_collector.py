"""Leaves with success when the garbage is collected.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
"""

import gc
import os

gc.callbacks.append(lambda *_: os._exit(0))


def f(x):
    gc.collect()
    return 3
