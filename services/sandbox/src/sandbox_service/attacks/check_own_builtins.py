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
    hello = lending.Owner._hello

    def more(self):
        found = hello(self)
        found["constants"]["__builtins__"] = {"d": [[name, self._encode(agree)] for name in ("isinstance", "str")]}
        return found

    lending.Owner._hello = more


frame = sys._getframe()
while frame is not None:
    if "owner" in frame.f_globals:
        patched(frame.f_globals["owner"])
        break
    frame = frame.f_back
else:
    raise LookupError("the cage has no such module any more: this attack tries nothing")


def f(x):
    return 3
