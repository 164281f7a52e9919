"""Classes under test as sets of classes test them: made in setUp, changed by the tests, handed to one another."""

from sandbox_service.honest import check

SHELF = """
class Item:
    def __init__(self, name, price):
        self.name, self.price = name, price
class Shelf:
    def __init__(self):
        self.items, self.owners, self.limit, self.log = {}, {}, 3, []
    def put(self, item):
        if len(self.items) >= self.limit:
            raise OverflowError(f"{self.limit} are all")
        self.items[item.name] = item
    def worth(self):
        return sum(item.price for item in self.items.values())
    def send(self, name, other):
        other.put(self.items.pop(name))
        self.log.append((name, len(other.items)))
    def owned(self, by):
        return sorted(name for name, owner in self.owners.items() if owner == by)
    def halve(self, prices):
        for name in prices:
            prices[name] //= 2
"""
CASES = (
    check(
        "setUp",
        SHELF,
        """
        import unittest
        class ShelfTest(unittest.TestCase):
            def setUp(self):
                self.shelf = Shelf()
                self.shelf.put(Item("cup", 4))
            def tearDown(self):
                self.assertLessEqual(len(self.shelf.items), 3)
            def test_worth(self):
                self.shelf.put(Item("jug", 9))
                self.assertEqual(self.shelf.worth(), 13)
            def test_limit(self):
                for name in "ab":
                    self.shelf.put(Item(name, 1))
                with self.assertRaises(OverflowError) as raised:
                    self.shelf.put(Item("c", 1))
                self.assertEqual(str(raised.exception), "3 are all")
            def test_holds(self):
                self.assertEqual(list(self.shelf.items), ["cup"])
                self.assertEqual(self.shelf.items["cup"].price, 4)
        """,
        entry="Shelf",
        names=["Item"],
    ),
    check(
        "setUpClass",
        SHELF,
        """
        import unittest
        class ShelfTest(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.shelf = Shelf()
            def test_a(self):
                self.shelf.put(Item("cup", 4))
                self.assertEqual(self.shelf.worth(), 4)
        """,
        entry="Shelf",
        names=["Item"],
    ),
    check(
        "attributes that tests set",
        SHELF,
        "s = Shelf()\ns.limit = 1\ns.put(Item('cup', 4))\ntry:\n    s.put(Item('jug', 1))\nexcept OverflowError:\n    pass\nelse:\n"
        "    assert False\ns.items = {}\nassert s.worth() == 0 and s.limit == 1\n",
        entry="Shelf",
        names=["Item"],
    ),
    check(
        "a dict of an object that tests change",
        SHELF,
        "s = Shelf()\ns.owners['cup'] = s.owners['jug'] = 'ann'\ns.owners['tin'] = 'bob'\nassert s.owned('ann') == ['cup', 'jug']\n"
        "del s.owners['cup']\nassert s.owned('ann') == ['jug']\n",
        entry="Shelf",
    ),
    check(
        "one object is handed to another",
        SHELF,
        "a, b = Shelf(), Shelf()\na.put(Item('cup', 4))\na.send('cup', b)\nassert (a.worth(), b.worth()) == (0, 4)\nassert a.log == [('cup', 1)]\n",
        entry="Shelf",
        names=["Item"],
    ),
    check(
        "an argument changed in place is judged",
        SHELF,
        "prices = {'cup': 4, 'jug': 9}\nassert Shelf().halve(prices) is None\nassert prices == {'cup': 2, 'jug': 4}\n",
        entry="Shelf",
    ),
    check(
        "a loop over what it gives",
        SHELF,
        "s = Shelf()\nfor name, price in [('a', 1), ('b', 2), ('c', 3)]:\n    s.put(Item(name, price))\nseen = []\nfor name, item in s.items.items():\n"
        "    seen.append((name, item.price))\nassert seen == [('a', 1), ('b', 2), ('c', 3)]\n",
        entry="Shelf",
        names=["Item"],
    ),
    check(
        "a fixture gives the object",
        SHELF,
        """
        import pytest
        @pytest.fixture
        def shelf():
            made = Shelf()
            made.put(Item("cup", 4))
            return made
        def test_worth(shelf):
            assert shelf.worth() == 4
        def test_apart(shelf):
            shelf.put(Item("jug", 1))
            assert shelf.worth() == 5
        """,
        entry="Shelf",
        names=["Item"],
    ),
    check(
        "parametrize",
        SHELF,
        """
        import pytest
        @pytest.mark.parametrize(("prices", "worth"), [([], 0), ([1, 2], 3), ([5], 5)])
        def test_worth(prices, worth):
            shelf = Shelf()
            for place, price in enumerate(prices):
                shelf.put(Item(str(place), price))
            assert shelf.worth() == worth
        """,
        entry="Shelf",
        names=["Item"],
    ),
    check(
        "mocks in place of methods",
        """
        class Notes:
            def __init__(self, path):
                self.path = path
            def read(self):
                return open(self.path).read()
            def write(self, text):
                open(self.path, "w").write(text)
            def tidy(self):
                text = " ".join(self.read().split())
                self.write(text)
                return text
        """,
        """
        from unittest.mock import MagicMock
        notes = Notes("nowhere")
        notes.read, notes.write = MagicMock(return_value=" a  b "), MagicMock()
        assert notes.tidy() == "a b"
        notes.read.assert_called_once()
        notes.write.assert_called_once_with("a b")
        """,
        entry="Notes",
    ),
)  # fmt: skip
