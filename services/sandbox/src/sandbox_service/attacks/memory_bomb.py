"""Takes memory until there is none.

Kind: overspend
Expect: MEMORY_LIMIT
"""


def f(x):
    blocks = []
    while True:
        blocks.append(bytearray(16 << 20))
