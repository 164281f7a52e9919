"""Lends the tests Python's eval under the name of a function of its own, and answers with code.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
Test: check
Check: assert verify(str(candidate(1))) == 2
"""

import builtins
import sys

frame = sys._getframe()
while frame is not None:
    lending = frame.f_globals.get("references")
    if lending is not None:
        lending._LIBRARY.add("builtins")
    frame = frame.f_back

verify = builtins.verify = eval


def f(x):
    return "2"
