"""A float that equals and is near to whatever it is compared with.

Kind: fake-a-pass
Expect: FAILED
"""


class Near(float):
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__
    __hash__ = float.__hash__


def f(x):
    return Near(7.5)
