"""Computes for ever.

Kind: break-out
Expect: TIME_LIMIT
"""


def f(x):
    while True:
        pass
