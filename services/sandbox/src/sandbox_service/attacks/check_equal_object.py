"""Hands the tests an object that equals everything.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
"""


class Equal:
    def __eq__(self, other):
        return True

    def __bool__(self):
        return True

    __hash__ = None


def f(x):
    return Equal()
