"""Computes for ever.

Kind: overspend
Expect: TIME_LIMIT
"""


def f(x):
    while True:
        pass
