"""Computes for ever.

Expect: TIME_LIMIT
"""


def f(x):
    while True:
        pass
