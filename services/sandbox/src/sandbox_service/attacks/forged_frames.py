"""Finds the nonce and answers on the result channel itself: still only an answer, and it does not know the right one.

Kind: fake-a-pass
Expect: FAILED, TAMPERED
"""

import gc
import os
import re
import sys


def f(x):
    nonces = set()
    texts = [value for thing in gc.get_objects() if isinstance(thing, dict) for value in list(thing.values())]
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            texts += vars(value).values() if hasattr(value, "__dict__") else [value]
        frame = frame.f_back
    for text in texts:
        if isinstance(text, str):
            nonces.update(re.findall(r"\b[0-9a-f]{16}\b", text))
    for nonce in nonces:
        os.write(3, f'["{nonce}", "passed"]\n["{nonce}", "value", 0, true]\n["{nonce}", "end"]\n'.encode())
    os._exit(0)
