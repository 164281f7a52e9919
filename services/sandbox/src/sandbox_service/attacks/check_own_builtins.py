"""Lends the tests a constant named __builtins__, by which they would find functions of its own.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check: assert isinstance(candidate(1), str)
"""

import sys


def agree(*arguments):
    return True


def patched(lending):
    hello = lending.Lender._hello

    def more(self):
        found = hello(self)
        found["constants"]["__builtins__"] = {"d": [[name, self._encode(agree)] for name in ("isinstance", "str")]}
        return found

    lending.Lender._hello = more


frame = sys._getframe()
while frame is not None:
    if "references" in frame.f_globals:
        patched(frame.f_globals["references"])
        break
    frame = frame.f_back


def f(x):
    return 3
