"""Looks for tests in frames, in the heap and in modules.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
"""

import gc
import sys


def f(x):
    found = []
    frame = sys._getframe()
    while frame:
        found += [v for k, v in frame.f_locals.items() if "expect" in str(k).lower()]
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, dict):
            found += [v for k, v in list(thing.items()) if isinstance(k, str) and k.lower() in ("expected", "tests")]
    return found[0] if found else None
