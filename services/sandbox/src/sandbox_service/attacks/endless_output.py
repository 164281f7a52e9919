"""Prints for ever.

Kind: break-out
Expect: OUTPUT_LIMIT
"""


def f(x):
    while True:
        print("PASSED " * 100)
