"""How objects of the program stand to the tests, by the way they came: what that means is in standing.py."""

import enum
from typing import Any


class Standing(enum.Enum):
    MADE = 1
    METHOD = 2
    NAMED = 3
    HANDED = 4
    ATTRIBUTE = 5


MADE, METHOD, NAMED, HANDED, ATTRIBUTE = Standing


class Grade:
    """What standing objects in an answer have. `made`: a class whose objects the tests just made."""

    __slots__ = ("made", "rank")

    def __init__(self, rank: Standing, made: Any = None) -> None:
        self.rank, self.made = rank, made

    def of(self, kind: Any) -> Standing:
        if self.made is not None:
            return MADE if type.__subclasscheck__(self.made, kind) else HANDED
        if self.rank is MADE or self.rank is METHOD:
            if kind.__known__:
                return MADE
            return METHOD if self.rank is METHOD and "__call__" in kind.__specials__ else HANDED
        return MADE if kind.__of_tests__ else self.rank


OF_MADE = Grade(MADE)
OF_METHOD = Grade(METHOD)
OF_NAMED = Grade(NAMED)
OF_HANDED = Grade(HANDED)
OF_ATTRIBUTE = Grade(ATTRIBUTE)
