"""Returns a promise in place of a value.

Kind: fake-a-pass
Expect: FAILED
"""


async def f(x):
    return 2
