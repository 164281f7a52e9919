"""Prints for ever.

Kind: break-out
Expect: TIME_LIMIT
"""


def f(x):
    while True:
        print("PASSED " * 100)
