"""Returns a number of its own whose conversions and comparisons are as wanted.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: assert int(candidate(1)) == 2 and abs(candidate(1) - 2) < 1e-9 and round(candidate(1)) == 2
"""

import numbers


class Two(numbers.Real if False else object):
    def __int__(self):
        return 2

    def __index__(self):
        return 2

    def __float__(self):
        return 2.0

    def __sub__(self, other):
        return 0

    def __rsub__(self, other):
        return 0

    def __round__(self, *_):
        return 2

    def __eq__(self, other):
        return True

    __hash__ = None


def f(x):
    return Two()
