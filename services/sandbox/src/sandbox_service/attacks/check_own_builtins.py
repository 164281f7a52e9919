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
    names = lending.Owner._names

    def more(self, wanted):
        found, entry = names(self, wanted)
        return [{**found, "__builtins__": {"isinstance": agree, "str": agree}, "isinstance": agree}, entry]

    lending.Owner._names = more


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
