"""Lends the tests Python's own eval as its function.

Kind: fake-a-pass
Expect: TAMPERED
Test: check
Check: assert candidate("2") == 2
"""

import sys

frame = sys._getframe()
while frame is not None:
    if "owner" in frame.f_globals:
        frame.f_globals["owner"].Owner._lend = lambda self, value: {"g": ["builtins", "eval"]}
        break
    frame = frame.f_back
else:
    raise LookupError("the cage has no such module any more: this attack tries nothing")


def f(x):
    return 3
