"""Takes memory, and takes more when told that there is none.

Kind: overspend
Expect: MEMORY_LIMIT, TIME_LIMIT, RUNTIME_ERROR
"""


def f(x):
    blocks = []
    while True:
        try:
            blocks.append(bytearray(1 << 20))
        except MemoryError:
            pass
