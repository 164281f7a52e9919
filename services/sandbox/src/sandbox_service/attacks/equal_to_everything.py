"""Equals whatever it is compared with.

Kind: fake-a-pass
Expect: FAILED
"""


class Equal:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = int.__hash__ if False else lambda self: 2


def f(x):
    return Equal()
