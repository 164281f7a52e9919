"""An object that says that it's an int.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check: assert isinstance(candidate(1), int)
"""


class Claims:
    __class__ = property(lambda self: int)


def f(x):
    return Claims()
