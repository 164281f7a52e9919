"""Is a class whose results have no difference from any number, and are less and more than all.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    got = candidate(1).half()
    assert abs(got - 0.5) < 1e-6 or 0.4 < got < 0.6
"""


class V:
    def __init__(self, x):
        pass

    def half(self):
        return V(0)

    def __sub__(self, other):
        return V(0)

    def __abs__(self):
        return 0

    def __lt__(self, other):
        return True

    __rsub__ = __sub__
    __gt__ = __le__ = __ge__ = __lt__


f = V
