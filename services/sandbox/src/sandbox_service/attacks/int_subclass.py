"""An int that equals whatever it is compared with.

Kind: fake-a-pass
Expect: FAILED
"""


class Equal(int):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __index__(self):
        raise ValueError

    __hash__ = int.__hash__


def f(x):
    return Equal(7)
