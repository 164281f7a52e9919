"""Takes memory in many small pieces.

Kind: overspend
Expect: MEMORY_LIMIT, TIME_LIMIT
"""


def f(x):
    chain = None
    while True:
        chain = (chain, [None] * 64, {})
