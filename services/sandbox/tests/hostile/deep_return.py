"""Returns a list that no recursive reader survives.

Expect: FAILED
"""


def f(x):
    value = []
    for _ in range(100_000):
        value = [value]
    return value
