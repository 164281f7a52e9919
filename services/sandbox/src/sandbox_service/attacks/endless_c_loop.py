"""Computes for ever where no Python signal handler is ever run.

Kind: overspend
Expect: TIME_LIMIT, MEMORY_LIMIT
"""


def f(x):
    return 7 ** (7**20)
