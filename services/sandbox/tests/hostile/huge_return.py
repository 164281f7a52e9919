"""Returns more than anybody wants.

Expect: OUTPUT_LIMIT, MEMORY_LIMIT
"""


def f(x):
    return ["x" * 1000] * 1_000_000
