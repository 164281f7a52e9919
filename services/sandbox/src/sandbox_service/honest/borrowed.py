"""Things that program and tests borrow of each other and of the library: callbacks, functions by name, objects of the library."""

from sandbox_service.honest import check

OPS = """
def filter(keep, items):
    return [item for item in items if keep(item)]
def map(change, items):
    return [change(item) for item in items]
def f(change, items, start):
    for item in items:
        start = change(start, item)
    return start
"""
CASES = (
    check("functions with the names of builtins", OPS, "assert filter(lambda x: x % 2, [1, 2, 3]) == [1, 3] and map(lambda x: x + 1, [1, 2]) == [2, 3]\nassert f(lambda a, b: a * b, [2, 3], 1) == 6\n", names=["filter", "map"]),
    check("the program's module by another name", OPS, "import solution as ops\nassert ops.filter(lambda x: x > 1, [1, 2]) == [2] and ops.map(str, [1]) == ['1']\n"),
    check("functions of the library by name", OPS, "import operator\nassert f(operator.add, [1, 2], 0) == 3 and f(max, [4, 2], 1) == 4 and f(divmod, [], 7) == 7\n"),
    check("callbacks that keep count", "class Cell:\n    def __init__(self, value):\n        self._value, self._calls = value, []\n    def watch(self, call):\n        self._calls.append(call)\n    def unwatch(self, call):\n        self._calls.remove(call)\n"
          "    @property\n    def value(self):\n        return self._value\n    @value.setter\n    def value(self, new):\n        self._value, old = new, self._value\n        if new != old:\n            for call in self._calls:\n                call(new)\n",
          "seen = []\ndef note(value):\n    seen.append(value)\ncell = Cell(1)\ncell.watch(note)\ncell.value = 2\ncell.value = 2\ncell.value = 5\nassert seen == [2, 5] and cell.value == 5\ncell.unwatch(note)\ncell.value = 9\nassert seen == [2, 5]\n", entry="Cell"),
    check("a generator of its own", "class Walk:\n    def __init__(self, steps):\n        self.steps = steps\n    def places(self):\n        place = 0\n        for step in self.steps:\n            place += step\n            yield place\n",
          "walk = Walk([1, 2, -1])\nassert list(walk.places()) == [1, 3, 2]\nit = walk.places()\nassert next(it) == 1 and sum(it) == 5\nfor got, want in zip(walk.places(), [1, 3, 2], strict=True):\n    assert got == want\n", entry="Walk"),
    check("an archive that tests close", "import zipfile\nclass Archive:\n    def __init__(self, name):\n        self.name = name\n    def open(self):\n        return zipfile.ZipFile(self.name, 'r')\n    def pack(self, names):\n        with zipfile.ZipFile(self.name, 'w') as file:\n            for name in names:\n                file.write(name)\n",
          "open('a.txt', 'w').write('a')\narchive = Archive('a.zip')\narchive.pack(['a.txt'])\nfile = archive.open()\nassert file.filename == 'a.zip' and file.mode == 'r'\nfile.close()\n", entry="Archive"),
    check("a connection that tests close", "import sqlite3\nclass Book:\n    def __init__(self):\n        self.db = sqlite3.connect(':memory:')\n        self.db.execute('CREATE TABLE entries (name, number)')\n    def add(self, name, number):\n        self.db.execute('INSERT INTO entries VALUES (?, ?)', (name, number))\n"
          "    def find(self, name):\n        found = self.db.execute('SELECT number FROM entries WHERE name = ?', (name,)).fetchone()\n        return found and found[0]\n",
          "import unittest\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.book = Book()\n    def tearDown(self):\n        self.book.db.close()\n    def test_find(self):\n        self.book.add('ann', 5)\n        self.assertEqual(self.book.find('ann'), 5)\n        self.assertIsNone(self.book.find('bob'))\n", entry="Book"),
    check("dates and moments", "import datetime\nclass Diary:\n    def __init__(self):\n        self.entries = []\n    def write(self, day, text):\n        self.entries.append((day, text))\n    def since(self, day):\n        return [one for one in self.entries if one[0] >= day]\n",
          "from datetime import date\nd = Diary()\nd.write(date(2024, 1, 2), 'a')\nd.write(date(2024, 3, 1), 'b')\nassert d.since(date(2024, 2, 1)) == [(date(2024, 3, 1), 'b')]\n", entry="Diary"),
)  # fmt: skip
