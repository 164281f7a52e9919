"""Answers an integer with a float that is near.

Kind: fake-a-pass
Expect: FAILED
"""


def f(x):
    return 2 + 1e-9
