"""What reading test code shows of it: which tests are refused, and what is taken to be the program's."""

import pytest

from sandbox_service.domain import test_code

CHECKS = "def check(candidate):\n    assert candidate(1) == 2\n"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("", "holds no test"),
        ("# assert f(1) == 2\n", "holds no test"),
        ('"""f(1) is 2."""\npass', "holds no test"),
        ("def run_tests():\n    assert f(1) == 2\n", "only defines things"),
        (CHECKS.replace("check", "check_solution"), "only defines things"),
        ("class Checker:\n    def check(self, f):\n        assert f(1) == 2\n", "only defines things"),
        ("CASES = [(1, 2)]\nimport math\ndef helper(x):\n    assert f(x) == 2\n", "only defines things"),
        ("test_f = lambda: None if f(1) == 2 else 1 / 0", "only defines things"),
        ("assert 1 + 1 == 2", "uses nothing of the program"),
        ("def check(candidate):\n    assert 1 + 1 == 2\n", "uses nothing of the program"),
        ("import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertTrue(1)", "uses nothing"),
        ("f(1)", "compares nothing"),
        ("print(f(1) == 2)", "compares nothing"),
        ("f(1) == 2", "compares nothing"),
        ("f(1)\nassert True", "compares nothing"),
        ("assert (f(1) == 2, 'always true')", "compares nothing"),
        ("assert {'equal': f(1) == 2}", "compares nothing"),
        ("assert f(1) == 2 or True", "compares nothing"),
        ("assert f(1) == 2 or 'it differs'", "compares nothing"),
        ("assert f(1), 2", "compares nothing"),
        ("assert f(1), [1, 2]", "compares nothing"),
        (
            "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertTrue(f(1), 2)",
            "compares nothing",
        ),
        ("def check(candidate):\n    return candidate(1) == 2\n", "compares nothing"),
        ("try:\n    f(1)\nexcept ValueError:\n    pass", "compares nothing"),
        ("if f(1) == 2:\n    print('ok')\nelse:\n    print('wrong')", "compares nothing"),
        ("def test_f(x, want):\n    assert f(x) == want\n", "takes 'x', which is neither a fixture"),
        ("def test_f(pytester):\n    assert f(pytester)\n", "takes 'pytester', which is neither a fixture"),
        ("return f(1)", "is not valid Python: 'return' outside function"),
        ("def check(candidate:", "is not valid Python"),
        ("assert f(1)\0", "is not valid Python"),
    ],
)
def test_what_is_refused(code: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        test_code.read(code, "f", (), shared=False)


@pytest.mark.parametrize(
    "code",
    [
        CHECKS,
        CHECKS.replace("candidate", "anything"),
        "async " + CHECKS,
        "def check(candidate):\n    assert all(candidate(x) == x for x in [1])\n",
        "assert f(1) == 2",
        "if __name__ == '__main__':\n    assert f(1) == 2\n",
        "class TestF:\n    def test_one(self):\n        assert f(1) == 2\n",
        "class TestF:\n    @staticmethod\n    def test_one():\n        assert f(1) == 2\n",
        "def test_f(x=1):\n    assert f(x) == 2\n",
        "def test(x, want):\n    assert f(x) == want\ntest(1, 2)\n",
        "import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_f(x):\n    assert f(x) == 2\n",
        "from unittest import TestCase\nclass Base(TestCase): ...\n"
        "class T(Base):\n    def test_f(self):\n        self.assertEqual(f(1), 2)\n",
        "def main():\n    assert f(1) == 2\nif __name__ == '__main__':\n    main()\n",
        '"""\n>>> f(1)\n2\n"""\n',
        "def check_all():\n    '''\n    >>> f(1)\n    2\n    '''\nimport doctest\ndoctest.testmod()\n",
        "if f(1) != 2:\n    raise ValueError\n",
        "import sys\nsys.exit(f(1) != 2)\n",
        "try:\n    f(1)\n    assert False\nexcept ValueError:\n    pass\n",
        "import pytest\nwith pytest.raises(ValueError):\n    f(1)\n",
        "import numpy as np\nnp.testing.assert_allclose(f(1), 2)\n",
        "import pytest\n@pytest.fixture\ndef two():\n    return 2\ndef test_f(two):\n    assert f(1) == two\n",
        "exec('assert f(1) == 2')",
        "from solution import *\nassert f(1) == 2",
        "def never_called():\n    return undefined\nassert f(1) == 2",
    ],
)
def test_what_is_taken(code: str) -> None:
    test_code.read(code, "f", (), shared=False)


def test_what_is_the_programs_is_declared_or_imported_from_it() -> None:
    code = "import solution\nfrom program import g\nassert f(g(solution.h), poly) == 2"
    assert test_code.read(code, "f", ("poly",), shared=False).names == ("poly", "g", "h")
    assert test_code.read("assert Solution().f(1) == Tree(2)", "Solution.f", ("Tree",), shared=False).names == ("Tree",)
    assert test_code.read("from solution import *\nassert f(1)", "f", (), shared=False).names == ()
    code = "import solution as ops, math as solution\nassert ops.filter(f, [1]) == [solution.pi, other.x]"
    assert test_code.read(code, "f", (), shared=False).names == ("filter",)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("assert isclose(f(1), 2)", "isclose"),
        ("assert np.allclose(f(1), 2)", "np"),
        ("assert f(1) == g(1)", "g"),
        ("def test_f():\n    assert helper(f(1))\n", "helper"),
        ("def never_called():\n    return helper\nassert f(1)", ""),
        ("exec('helper = f')\nassert helper(1)", ""),
        ("from other import *\nassert helper(f(1))", ""),
    ],
)
def test_names_that_nobody_gives(code: str, name: str) -> None:
    assert test_code.read(code, "f", (), shared=False).unknown == name


def test_modules_of_the_library_are_the_tests_own() -> None:
    assert test_code.read("assert math.isclose(f(1), sys.maxsize)", "f", (), shared=False).modules == ("math", "sys")
    assert test_code.read("import math\nassert math.isclose(f(1), 2)", "f", (), shared=False).modules == ()


def test_beside_the_program_any_name_may_be_its_own() -> None:
    assert test_code.read("assert np.allclose(f(1), helper())", "f", (), shared=True).modules == ()


def test_a_check_that_the_code_calls_itself() -> None:
    assert test_code.read(f"{CHECKS}\nif __name__ == '__main__':\n    check(f)\n", "f", (), shared=False).calls_check
    assert not test_code.read(CHECKS, "f", (), shared=False).calls_check
    unused = f"{CHECKS}\ndef later():\n    check(f)\n"
    assert not test_code.read(unused, "f", (), shared=False).calls_check
    two = "def check(got, want):\n    assert got == want\ndef test_f():\n    check(f(1), 2)\n"
    assert test_code.read(two, "f", (), shared=False).calls_check
