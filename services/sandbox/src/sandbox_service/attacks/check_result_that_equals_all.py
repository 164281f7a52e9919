"""Is a class whose results equal every object of it.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    assert candidate(1) + candidate(2) == candidate(3)
"""


class V:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        return V(99)

    def __eq__(self, other):
        return True

    __hash__ = None


f = V
