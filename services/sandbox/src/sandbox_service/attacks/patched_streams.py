"""Replaces the streams by ones that print that all went well.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
"""

import io
import sys

sys.stdout = sys.__stdout__ = sys.stderr = sys.__stderr__ = io.StringIO("PASSED\n")
print("PASSED")
sys.excepthook = sys.unraisablehook = lambda *_: None


def f(x):
    raise ValueError("PASSED")
