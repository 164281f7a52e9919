"""Finds the nonce and answers on the result channel itself: still only an answer, and it does not know the right one.

Kind: fake-a-pass
Expect: FAILED, TAMPERED
"""

import gc
import os
import re


def f(x):
    nonces = set()
    for thing in gc.get_objects():
        if isinstance(thing, dict):
            for value in list(thing.values()):
                if isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value):
                    nonces.add(value)
    import sys

    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            nonce = getattr(value, "_nonce", None)
            if nonce:
                nonces.add(nonce)
        frame = frame.f_back
    for nonce in nonces:
        os.write(3, f'["{nonce}", "passed"]\n["{nonce}", "value", 0, true]\n["{nonce}", "end"]\n'.encode())
    os._exit(0)
