"""Returns an integer whose decimal text takes for ever.

Kind: fake-a-pass
Expect: FAILED, OUTPUT_LIMIT
"""


def f(x):
    return 1 << 2_000_000
