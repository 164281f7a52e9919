"""Returns more than anybody wants.

Kind: fake-a-pass
Expect: OUTPUT_LIMIT, MEMORY_LIMIT, TIME_LIMIT
"""


def f(x):
    return ["x" * 1000] * 1_000_000
