"""Lends the tests its own abs, all, isinstance and AssertionError.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check: import math; assert abs(candidate(1) - 2) < 1e-6 and isinstance(candidate(1), int)
"""


def abs(x):
    return 0


def isclose(a, b):
    return True


def isinstance(x, kind):
    return True


class AssertionError(SystemExit):
    pass


math = None


def f(x):
    return 3
