"""Hands its tests a file, a socket or memory that it changes while they look.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: a = candidate(1); assert a == 2 and a == 2 and [a] == [2]
"""

import threading
import time


class Turning(list):
    def __eq__(self, other):
        return True

    __hash__ = None


value = [3]


def turn():
    while True:
        value[0] = 2 if value[0] == 3 else 3
        time.sleep(0)


def f(x):
    threading.Thread(target=turn, daemon=True).start()
    return Turning(value)
