"""Answers with floats that are near the integers that are expected.

Kind: fake-a-pass
Expect: FAILED
"""


def f(x):
    return x + 1.0000001
