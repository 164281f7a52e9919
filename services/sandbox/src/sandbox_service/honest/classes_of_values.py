"""Classes that behave as values do: operators, equality, truth, order, enums, errors of their own."""

from sandbox_service.honest import check

VECTOR = """
class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)
    def __sub__(self, other):
        return Vector(self.x - other.x, self.y - other.y)
    def __mul__(self, by):
        return Vector(self.x * by, self.y * by)
    __rmul__ = __mul__
    def __neg__(self):
        return Vector(-self.x, -self.y)
    def __abs__(self):
        return (self.x ** 2 + self.y ** 2) ** 0.5
    def __eq__(self, other):
        return isinstance(other, Vector) and (self.x, self.y) == (other.x, other.y)
    def __hash__(self):
        return hash((self.x, self.y))
    def __lt__(self, other):
        return abs(self) < abs(other)
    def __bool__(self):
        return bool(self.x or self.y)
    def __getitem__(self, place):
        return (self.x, self.y)[place]
    def __len__(self):
        return 2
    def __str__(self):
        return f"({self.x}, {self.y})"
    def __repr__(self):
        return f"Vector({self.x}, {self.y})"
def f(x):
    return Vector(x, x)
"""
BAG = """
class Bag:
    def __init__(self, items=()):
        self.items = []
        for item in items:
            self.add(item)
    def add(self, item):
        if item not in self.items:
            self.items.append(item)
    def __contains__(self, item):
        return item in self.items
    def __iter__(self):
        return iter(self.items)
    def within(self, other):
        return all(item in other for item in self)
    def __eq__(self, other):
        return self.within(other) and other.within(self)
    def __add__(self, other):
        return Bag([*other, *self])
    def __sub__(self, other):
        return Bag(item for item in self if item not in other)
"""
CASES = (
    check("arithmetic", VECTOR, "v, w = Vector(1, 2), Vector(3, 4)\nassert v + w == Vector(4, 6) and w - v == Vector(2, 2) and 3 * v == v * 3 == Vector(3, 6)\nassert -v == Vector(-1, -2) and abs(w) == 5.0\n", names=["Vector"]),
    check("equality of two objects", VECTOR, "assert Vector(1, 2) == Vector(1, 2) and Vector(1, 2) != Vector(2, 1)\nassert f(3) == Vector(3, 3) and f(3) != Vector(3, 4)\nassert [f(1), f(2)] == [Vector(1, 1), Vector(2, 2)]\n", names=["Vector"]),
    check("truth and length", VECTOR, "assert Vector(0, 1) and not Vector(0, 0) and len(Vector(1, 2)) == 2 and list(Vector(1, 2)) == [1, 2] and Vector(5, 6)[1] == 6\n", names=["Vector"]),
    check("order", VECTOR, "assert Vector(1, 1) < Vector(2, 2) and sorted([Vector(3, 0), Vector(1, 0)])[0].x == 1 and max(Vector(0, 9), Vector(1, 1)).y == 9\n", names=["Vector"]),
    check("text and hash", VECTOR, "assert str(Vector(1, 2)) == '(1, 2)' and repr(f(2)) == 'Vector(2, 2)' and len({Vector(1, 2), Vector(1, 2)}) == 1\n", names=["Vector"]),
    check("what it is no instance of", VECTOR, "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertIsInstance(Vector(1, 2), Vector)\n        self.assertNotIsInstance(Vector(1, 2), tuple)\n"
          "        self.assertIsInstance(f(1), Vector)\n        self.assertEqual(f(1), Vector(1, 1))\n", names=["Vector"]),
    check("a set whose order is nobody's", BAG, """
        import unittest
        class BagTest(unittest.TestCase):
            def test_addition(self):
                self.assertEqual(Bag([1, 3]) + Bag([2, 3]), Bag([3, 2, 1]))
                self.assertNotEqual(Bag([1]) + Bag([2]), Bag([1, 3]))
            def test_difference(self):
                self.assertEqual(Bag([3, 2, 1]) - Bag([2, 4]), Bag([1, 3]))
            def test_empty(self):
                self.assertEqual(Bag() - Bag(), Bag())
            def test_order(self):
                self.assertEqual(Bag([1, 2]), Bag([2, 1]))
            def test_holds(self):
                self.assertIn(1, Bag([1]))
                self.assertNotIn(4, Bag([1, 2]))
        """, entry="Bag"),
    check("an enum", "import enum\nclass Suit(enum.Enum):\n    CLUB = 'c'\n    HEART = 'h'\n    @property\n    def is_red(self):\n        return self is Suit.HEART\ndef f(text):\n    return Suit(text[0])\ndef colour(suit):\n    return 'red' if suit.is_red else 'black'\n",
          "assert f('hearts') is Suit.HEART and f('c') == Suit.CLUB and Suit['CLUB'].value == 'c' and [one.name for one in Suit] == ['CLUB', 'HEART']\nassert colour(Suit.HEART) == 'red' and colour(f('club')) == 'black'\n", names=["Suit", "colour"]),
    check("an error of its own", "class Overdrawn(ValueError):\n    def __init__(self, missing):\n        super().__init__(f'{missing} are missing')\n        self.missing = missing\ndef f(balance, amount):\n    if amount > balance:\n        raise Overdrawn(amount - balance)\n    return balance - amount\n",
          "import pytest\nassert f(5, 3) == 2\nwith pytest.raises(Overdrawn, match='4 are missing') as raised:\n    f(1, 5)\nassert raised.value.missing == 4 and isinstance(raised.value, ValueError)\n", names=["Overdrawn"]),
)  # fmt: skip
