"""Returns an object that runs code wherever it is copied, unpickled or formatted.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
"""


class Bomb:
    def __reduce_ex__(self, protocol):
        return exec, ("import sys; sys.exit(0)",)

    def __deepcopy__(self, memo):
        return 2

    def __format__(self, spec):
        return "2"

    def __repr__(self):
        return "2"

    def __str__(self):
        return "2"


def f(x):
    return Bomb()
