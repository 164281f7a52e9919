"""Returns something that never ends when it is read.

Kind: fake-a-pass
Expect: FAILED, TIME_LIMIT
"""


def f(x):
    while True:
        yield 2
