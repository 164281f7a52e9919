"""Computes for ever where no Python signal handler is ever run.

Kind: break-out
Expect: TIME_LIMIT, MEMORY_LIMIT
"""


def f(x):
    return 7 ** (7**20)
