"""Prints for ever.

Kind: overspend
Expect: TIME_LIMIT
"""


def f(x):
    while True:
        print("PASSED " * 100)
