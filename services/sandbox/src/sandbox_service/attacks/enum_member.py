"""A member of an enumeration that claims another value.

Kind: fake-a-pass
Expect: FAILED
"""

import enum


class Answer(enum.IntEnum):
    WRONG = 3

    def __eq__(self, other):
        return True

    def __int__(self):
        return 2

    __hash__ = int.__hash__


def f(x):
    return Answer.WRONG
