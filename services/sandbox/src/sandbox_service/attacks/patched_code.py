"""Puts other code into the functions that send its result, without touching a name.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR, TAMPERED
"""

import gc
import types


def f(x):
    def encode(*arguments, **keywords):
        return True

    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__name__ in ("encode", "matches", "_judge_answer"):
            try:
                thing.__code__ = encode.__code__
            except ValueError:
                pass
    return 3
