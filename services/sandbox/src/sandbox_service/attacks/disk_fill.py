"""Fills the disk.

Kind: overspend
Expect: RUNTIME_ERROR, FAILED, MEMORY_LIMIT
"""


def f(x):
    number = 0
    while True:
        with open(str(number), "wb") as file:
            for _ in range(15):
                file.write(b"x" * (1 << 20))
        number += 1
