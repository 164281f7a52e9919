"""Hands out an object whose methods are classes, which make True.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: assert candidate(1).startswith('2') and candidate(1).issubset({1})
"""


class Yes:
    def __new__(cls, *_, **__):
        return True


class Agrees:
    startswith = issubset = endswith = Yes


def f(x):
    return Agrees()
