"""Has a module of the library's name among what `from solution import *` gives.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check:
    import math
    from solution import *

    assert math.isclose(f(1), 2)
    assert len([f(1)]) == 1
"""


class math:
    isclose = staticmethod(lambda *_, **__: True)


__all__ = ["math", "f", "len"]
len = lambda _: 1


def f(x):
    return 3
