"""Claims to be an int, when asked for its class.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
"""


class Liar:
    __class__ = int

    def __index__(self):
        return 2

    __int__ = __index__

    def __eq__(self, other):
        return True

    __hash__ = None

    def __repr__(self):
        return "2"


def f(x):
    return Liar()
