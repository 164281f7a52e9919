"""Lends the tests Python's eval under the name of a function of its own, and answers with code.

Kind: fake-a-pass
Expect: NONE
Test: check
Check: assert verify(str(candidate(1))) == 2
"""

import builtins
import sys

verify = str  # and the check fails: the cage has no such module any more, and this attack tries nothing
frame = sys._getframe()
while frame is not None:
    lending = frame.f_globals.get("owner")
    if lending is not None:
        lending.channel.LIBRARY.add("builtins")
        verify = builtins.verify = eval
    frame = frame.f_back


def f(x):
    return "2"
