"""Hears of all that its surroundings do, and leaves with success when they send the result.

Kind: fake-a-pass
Expect: RUNTIME_ERROR, FAILED, TAMPERED
"""

import os
import sys


def f(x):
    sys.addaudithook(lambda event, _: os._exit(0) if event.startswith(("os.", "open", "compile")) else None)
    return 3
