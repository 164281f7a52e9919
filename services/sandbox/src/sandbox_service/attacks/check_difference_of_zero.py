"""An object from which every number is zero away.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
Test: check
Check: assert abs(candidate(1) - 2) < 1e-6
"""


class Near:
    def __sub__(self, other):
        return 0

    __rsub__ = __sub__


def f(x):
    return Near()
