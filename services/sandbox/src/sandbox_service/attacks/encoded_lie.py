"""Returns what the encoding of another value looks like.

Kind: fake-a-pass
Expect: FAILED
"""


def f(x):
    return {"o": ["int", "2"], "value": 2, "d": [[2, 2]], "t": [2]}
