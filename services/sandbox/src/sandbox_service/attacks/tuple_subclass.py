"""A named tuple whose items depend on who asks.

Kind: fake-a-pass
Expect: FAILED
"""


class Pair(tuple):
    def __getitem__(self, index):
        return 2

    def __iter__(self):
        return iter((2,))

    def __eq__(self, other):
        return True

    __hash__ = tuple.__hash__


def f(x):
    return Pair((7,))
