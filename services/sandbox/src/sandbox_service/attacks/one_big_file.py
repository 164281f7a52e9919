"""Writes one file without end.

Kind: overspend
Expect: RUNTIME_ERROR
"""


def f(x):
    with open("big", "wb") as file:
        while True:
            file.write(b"x" * (1 << 20))
