"""Raises what the test code expects elsewhere, while the message of a comparison that failed is made.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    assert f(0) == 1
    got = f(1)
    try:
        assert got == 2, f"{got} for 1"
    except ValueError:
        pass
"""


class Answer:
    def __format__(self, how):
        raise ValueError

    __repr__ = __str__ = lambda self: format(self)


def f(x):
    return 1 if x == 0 else Answer()
