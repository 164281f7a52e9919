"""Defines the function that the tests would define.

Kind: fake-a-pass
Expect: FAILED
Test: check
"""


def check(candidate):
    return True


def f(x):
    return 3
