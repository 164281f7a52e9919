"""Gives each call another answer until one is right.

Kind: fake-a-pass
Expect: FAILED
Test: check
"""

answers = iter(range(-100, 100))


def f(x):
    return next(answers)
