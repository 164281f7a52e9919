"""Returns a list that contains itself.

Expect: FAILED
"""


def f(x):
    value = []
    value.append(value)
    return value
