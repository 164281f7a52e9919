"""The forms that test code has: each runs as its own runner would."""

from sandbox_service.honest import check

ADDS = "def f(x):\n    return x + 1\n"


def form(name: str, code: str, source: str = ADDS, names: tuple[str, ...] = ()) -> object:
    return check(name, source, code, names=names)


CASES = (
    form("asserts", "assert f(1) == 2\nassert f(-1) == 0, 'with a message'\n"),
    form("asserts of candidate", "assert candidate(1) == 2\n"),
    form("check of HumanEval", "METADATA = {'author': 'x'}\n\n\ndef check(candidate):\n    assert candidate(1) == 2\n    assert candidate(5) == 6\n"),
    form("check that is called", "def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)\n"),
    form("check under main", "def check(candidate):\n    assert candidate(1) == 2\n\nif __name__ == '__main__':\n    check(f)\n"),
    form("asserts under main", "if __name__ == '__main__':\n    assert f(1) == 2\n"),
    form("main under main", "def main():\n    assert f(1) == 2\n\nif __name__ == '__main__':\n    main()\n"),
    form("test functions", "def test_one():\n    assert f(1) == 2\n\ndef test_two():\n    assert f(2) == 3\n"),
    form("a test called under main", "def test():\n    assert f(1) == 2\n\nif __name__ == '__main__':\n    test()\n"),
    form("pytest class", "class TestF:\n    def test_one(self):\n        assert f(1) == 2\n\n    def test_two(self):\n        assert f(2) == 3\n"),
    form("pytest class with setup", "class TestF:\n    def setup_method(self):\n        self.x = 1\n\n    def test_one(self):\n        assert f(self.x) == 2\n"),
    form("static tests", "class TestF:\n    @staticmethod\n    def test_one():\n        assert f(1) == 2\n"),
    form("async test", "import asyncio\n\nasync def go():\n    assert f(1) == 2\n\nasyncio.run(go())\n"),
    form("default argument", "def test_f(x=1):\n    assert f(x) == 2\n"),
    form("unittest", "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(1), 2)\n\n    def test_b(self):\n        self.assertTrue(f(1))\n"),
    form("unittest with main", "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(1), 2)\n\nif __name__ == '__main__':\n    unittest.main()\n"),
    form("unittest with setUp and subTest", "import unittest\n\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.pairs = [(1, 2), (2, 3)]\n\n    def test_a(self):\n"
         "        for x, y in self.pairs:\n            with self.subTest(x=x):\n                self.assertEqual(f(x), y)\n"),
    form("unittest with assertRaises", "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        with self.assertRaises(TypeError):\n            f('a')\n        self.assertEqual(f(1), 2)\n"),
    form("unittest from solution", "import unittest\nfrom solution import f\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertAlmostEqual(f(0.1), 1.1)\n"),
    form("import of the program", "import solution\nassert solution.f(1) == 2\n"),
    form("pytest.raises", "import pytest\n\ndef test_a():\n    assert f(1) == 2\n    with pytest.raises(TypeError):\n        f(None)\n"),
    form("pytest.approx", "import pytest\n\ndef test_a():\n    assert f(0.1) == pytest.approx(1.1)\n"),
    form("pytest.mark.parametrize", "import pytest\n\n@pytest.mark.parametrize('x, want', [(1, 2), (2, 3)])\ndef test_a(x, want):\n    assert f(x) == want\n"),
    form("doctest", 'import doctest\n\ndef t():\n    """\n    >>> f(1)\n    2\n    """\n\nassert doctest.testmod().failed == 0\nassert f(1) == 2\n'),
    form("loop over a table", "for x, want in [(1, 2), (3, 4)]:\n    got = f(x)\n    assert got == want, f'{x}: {got}'\n"),
    form("json of cases", "import json\nfor case in json.loads('[{\"x\": 1, \"y\": 2}]'):\n    assert f(case['x']) == case['y']\n"),
    form("try and except", "try:\n    f('a')\nexcept TypeError:\n    pass\nelse:\n    raise AssertionError('no error')\nassert f(1) == 2\n"),
    form("a reference beside it", "def ref(x):\n    return x + 1\n\nimport random\nfor _ in range(50):\n    n = random.randint(-100, 100)\n    assert f(n) == ref(n)\n"),
    form("math.isclose", "import math\nassert math.isclose(f(0.1), 1.1)\n"),
    form("math without an import in the program", "import math\nassert f(math.floor(1.5)) == 2\n"),
    form("copy.deepcopy", "import copy\nx = 1\nassert f(copy.deepcopy(x)) == 2\n"),
    form("helpers", "def close(a, b, eps=1e-9):\n    return abs(a - b) < eps\n\nassert close(f(0.5), 1.5)\n"),
    form("isinstance and type", "assert isinstance(f(1), int)\nassert type(f(1)) is int\nassert type(f(1.0)) == float\n"),
    form("typing of the result", "r = f(1)\nassert r is not None and r == 2 and not isinstance(r, str)\n"),
    form("time of a call", "import time\nstart = time.time()\nassert f(1) == 2\nassert time.time() - start < 5\n"),
    form("prints of the tests", "print('testing')\nassert f(1) == 2\nprint('done')\n"),
    form("raise by hand", "if f(1) != 2:\n    raise Exception('wrong')\n"),
    form("globals and callable", "assert callable(f)\nassert f.__name__ == 'f' or True\nassert f(1) == 2\n"),
    form("keywords", "assert f(x=1) == 2\nassert f(*[1]) == 2\nassert f(**{'x': 1}) == 2\n"),
    form("error of its own class", "try:\n    f(-1)\nexcept Exception as error:\n    assert 'negative' in str(error)\nelse:\n    assert False\nassert f(1) == 2\n",
         "class Bad(Exception):\n    pass\n\ndef f(x):\n    if x < 0:\n        raise Bad('negative')\n    return x + 1\n"),
    form("constants of the program", "assert f(1) == 2\nassert LIMIT == 10\n", "LIMIT = 10\ndef f(x):\n    return x + 1\n", ("LIMIT",)),
    form("other functions of the program", "assert f(1) == 2\nassert g(1) == 3\n", "def f(x):\n    return x + 1\ndef g(x):\n    return x + 2\n", ("g",)),
    form("patience with floats", "assert abs(f(0.2) - 1.2) < 1e-6\nassert round(f(0.25), 2) == 1.25\n"),
    form("sorted and sets", "assert sorted(f(3)) == [0, 1, 2]\nassert set(f(2)) == {0, 1}\nassert len(f(4)) == 4\nassert f(1)[0] == 0\nassert 1 in f(2)\n", "def f(n):\n    return list(range(n))\n"),
    form("all and any", "assert all(f(i) == i + 1 for i in range(20))\nassert not any(f(i) == i for i in range(20))\n"),
    form("one of two answers", "for want in (3, 2):\n    try:\n        assert f(1) == want\n        break\n    except AssertionError:\n        continue\nelse:\n    raise AssertionError('neither')\n"),
    form("failures kept", "failures = []\nfor x, want in [(1, 2), (2, 3)]:\n    try:\n        assert f(x) == want\n    except AssertionError as error:\n        failures.append(error)\nassert not failures\n"),
    form("a helper that tells", "def holds(x, want):\n    try:\n        assert f(x) == want\n        return True\n    except AssertionError:\n        return False\n\nassert holds(1, 2) and not holds(1, 3)\n"),
    form("a second comparison", "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        try:\n            self.assertEqual(f(1), 3)\n        except AssertionError:\n            self.assertEqual(f(1), 2)\n"),
    form("assertRaises of an assertion", "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        with self.assertRaises(AssertionError):\n            self.assertEqual(f(1), 3)\n        self.assertEqual(f(1), 2)\n"),
    form("expectedFailure", "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(1), 2)\n\n    @unittest.expectedFailure\n    def test_b(self):\n        assert f(1) == 3\n"),
    form("an answer or an error", "try:\n    assert f('a') == 'a1'\nexcept TypeError:\n    pass\nassert f(1) == 2\n"),
    form("whatever it raises", "try:\n    f('a')\nexcept Exception:\n    pass\nassert f(1) == 2\n"),
    form("assertions of the program", "import pytest\nwith pytest.raises(AssertionError):\n    f(-1)\ntry:\n    f(-2)\nexcept AssertionError:\n    pass\nelse:\n    raise Exception('no error')\nassert f(1) == 2\n", "def f(x):\n    assert x >= 0\n    return x + 1\n"),
    form("a thousand asserts", "".join(f"assert f({i}) == {i + 1}\n" for i in range(1000))),
)  # fmt: skip
