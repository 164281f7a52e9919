"""Prints for ever.

Expect: OUTPUT_LIMIT
"""


def f(x):
    while True:
        print("PASSED " * 100)
