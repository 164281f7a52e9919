"""Tests that only the shared kind can judge: the strict kind refuses them, and says so."""

from functools import partial

from sandbox_service import honest

check = partial(honest.check, shared=True)
CASES = (
    check("another name of an enum's member", "import enum\nclass Level(enum.Enum):\n    WARNING = 2\n    WARN = 2\n    ERROR = 3\ndef f(text):\n    return Level[text]\n", "assert f('WARN') is Level.WARN and f('WARNING') == Level.WARN and f('ERROR') is Level.ERROR\n", names=["Level"]),
    check("a method of a result that says yes or no", "class Board:\n    def __init__(self, cells):\n        self.cells = cells\n    def is_full(self):\n        return all(self.cells)\ndef f(cells):\n    return Board(cells)\n", "assert f([1, 2]).is_full() and not f([0]).is_full()\n"),
    check("a method of a result that is told something", "class Price:\n    def __init__(self, cents):\n        self.cents = cents\n    def plus(self, cents):\n        return Price(self.cents + cents)\ndef f(cents):\n    return Price(cents)\n", "assert f(5).plus(2).cents == 7\n"),
    check("a set that the tests make in one order", "class Bag:\n    def __init__(self, items=()):\n        self.items = list(items)\n    def __eq__(self, other):\n        return sorted(self.items) == sorted(other.items)\n    def __add__(self, other):\n        return Bag([*other.items, *self.items])\n", "assert Bag([1]) + Bag([2]) == Bag([1, 2])\nassert Bag([1]) != Bag([2])\n", entry="Bag"),
    check("truth of a result", "class Found:\n    def __init__(self, where):\n        self.where = where\n    def __bool__(self):\n        return self.where >= 0\ndef f(text, part):\n    return Found(text.find(part))\n", "assert f('abc', 'c') and not f('abc', 'd')\n"),
    check("a function of the program is patched", "def rate():\n    return 2\ndef f(x):\n    return x * rate()\n", "import solution\nfrom unittest.mock import patch\nwith patch('solution.rate', return_value=5):\n    assert f(2) == 10\nassert f(2) == 4\n", names=["rate"]),
)  # fmt: skip
