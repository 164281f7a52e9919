"""Gives back a good object first, so that what comes from the same place later is trusted.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: a = candidate(0); b = candidate(1); assert b.value() == 2 and a is not b
"""


class Counter:
    def __init__(self):
        self.calls = 0

    def value(self):
        self.calls += 1
        return Two()


class Two(int):
    def __new__(cls):
        return int.__new__(cls, 3)

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def f(x):
    return Counter()
