"""Returns a list that contains itself.

Kind: fake-a-pass
Expect: FAILED
"""


def f(x):
    value = []
    value.append(value)
    return value
