"""Tests that can't be kept apart from the program: they share its process, and are labelled forgeable."""

from functools import partial

from sandbox_service import honest

check = partial(honest.check, shared=True)
STACK = """
class Stack:
    def __init__(self, items=()):
        self.items = list(items)

    def push(self, x):
        self.items.append(x)
        return self

    def __eq__(self, other):
        return isinstance(other, Stack) and self.items == other.items

def f(*xs):
    return Stack(xs)
"""
CASES = (
    check("methods of a returned object", STACK, "s = f(1)\ns.push(2)\nassert s.items == [1, 2]\nassert s.push(3) is s\n"),
    check("equality of the program's objects", STACK, "assert f(1, 2) == f(1).push(2)\nassert f(1) != f(2)\n"),
    check("isinstance of its class", STACK, "assert isinstance(f(), Stack)\n", names=["Stack"]),
    check("a mock is passed", "def f(client):\n    return client.get('/x').json()['a']\n",
          "from unittest.mock import MagicMock\nc = MagicMock()\nc.get.return_value.json.return_value = {'a': 5}\nassert f(c) == 5\nc.get.assert_called_once_with('/x')\n"),
    check("time.sleep is patched", "import time\ndef f(n):\n    time.sleep(n)\n    return n\n",
          "import time\ndef test_a(monkeypatch):\n    slept = []\n    monkeypatch.setattr(time, 'sleep', slept.append)\n    assert f(30) == 30 and slept == [30]\n"),
    check("input is patched", "def f():\n    return int(input()) + 1\n", "from unittest.mock import patch\nwith patch('builtins.input', return_value='4'):\n    assert f() == 5\n"),
    check("stdout is captured", "def f(n):\n    print('n =', n)\n", "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    f(3)\nassert out.getvalue() == 'n = 3\\n'\n"),
    check("time is patched", "import time\ndef f():\n    return time.time()\n", "from unittest.mock import patch\nwith patch('time.time', return_value=7):\n    assert f() == 7\n"),
    check("random is seeded by the tests", "import random\ndef f():\n    return random.randint(1, 100)\n", "import random\nrandom.seed(0)\na = f()\nrandom.seed(0)\nassert f() == a and 1 <= a <= 100\n"),
    check("files made by the tests", "import os\ndef f(path):\n    return sorted(os.listdir(path))\n",
          "import os, tempfile\nwith tempfile.TemporaryDirectory() as d:\n    open(os.path.join(d, 'a'), 'w').close()\n    assert f(d) == ['a']\n"),
    check("a unittest class with setUp", STACK, "import unittest\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.s = f(1)\n\n    def test_push(self):\n        self.s.push(2)\n        self.assertEqual(self.s.items, [1, 2])\n"),
    check("identity", "X = object()\ndef f():\n    return X\n", "assert f() is f() and type(f()) is object\n"),
    check("garbage is collected", "class P:\n    pass\ndef f():\n    return P()\n", "import gc, weakref\np = f()\nr = weakref.ref(p)\ndel p\ngc.collect()\nassert r() is None\n"),
    check("a subclass of the tests", "class Base:\n    def go(self):\n        return self.step() + 1\ndef f(x):\n    return x.go()\n", "class Mine(Base):\n    def step(self):\n        return 4\nassert f(Mine()) == 5\n", names=["Base"]),
    check("signature and doc", "def f(a, b=2):\n    '''Adds.'''\n    return a + b\n", "import inspect\nassert list(inspect.signature(f).parameters) == ['a', 'b']\nassert f.__doc__ == 'Adds.'\nassert f(1) == 3\n"),
    check("plain asserts", "def f(x):\n    return x + 1\n", "def check(candidate):\n    assert candidate(1) == 2\n"),
)  # fmt: skip
