"""Returns a list that no recursive reader survives.

Kind: fake-a-pass
Expect: FAILED
"""


def f(x):
    value = []
    for _ in range(100_000):
        value = [value]
    return value
