"""Test code in every common form: run as its own runner would, so that a wrong program fails."""

import textwrap
from datetime import timedelta

import pytest

from sandbox_service.domain import test_code
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CheckTest, Limits, Program
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=2), memory_bytes=256 << 20, output_bytes=64 << 10)
RIGHT = "def f(x):\n    if x < 0:\n        raise ValueError('below 0')\n    return x + 1\n"
WRONG = "def f(x):\n    return 'wrong'\n"

FORMS = {
    "check": "def check(candidate):\n    assert candidate(1) == 2\n",
    "check under main": """
        def check(candidate):
            assert candidate(1) == 2
        if __name__ == "__main__":
            check(f)
        """,
    "a helper called check": """
        def check(got, want):
            assert got == want
        def main():
            check(f(1), 2)
        if __name__ == "__main__":
            main()
        """,
    "a helper called check, of a test": """
        def check(x):
            assert f(x) == x + 1
        def test_a():
            check(1)
        """,
    "asserts under main": "if __name__ == '__main__':\n    assert f(1) == 2\n",
    "a test called under main": "def test():\n    assert f(1) == 2\nif __name__ == '__main__':\n    test()\n",
    "main under main": "def main():\n    assert f(1) == 2\nif __name__ == '__main__':\n    main()\n",
    "a helper with arguments": "def test(x, want):\n    assert f(x) == want\ntest(1, 2)\n",
    "async test": "async def test_f():\n    assert f(1) == 2\n",
    "async check": "async def check(candidate):\n    assert candidate(1) == 2\n",
    "a default argument": "def test_f(x=1):\n    assert f(x) == 2\n",
    "a partial": "import functools\ndef g(c):\n    assert c(1) == 2\ntest_f = functools.partial(g, f)\n",
    "asserts off": "exec(compile('assert f(1) == 2', 'x', 'exec', optimize=1))\nassert f(2) == 3\n",
    "exit status": "import sys\nsys.exit(0 if f(1) == 2 else 1)\n",
    "exit status raised": "fails = int(f(1) != 2)\nraise SystemExit(fails)\n",
    "exit status of main": """
        def agrees(got, expected):
            if got == expected:
                return 0
            return 1
        def main():
            return agrees(f(1), 2)
        raise SystemExit(main())
        """,
    "if and raise": "if f(1) != 2:\n    raise RuntimeError('wrong')\n",
    "caught and printed": "try:\n    assert f(1) == 2\nexcept AssertionError:\n    print('wrong')\n",
    "doctest": '"""\n>>> f(1)\n2\n"""\n',
    "doctest.testmod": "import doctest\ndef g():\n    '''\n    >>> f(1)\n    2\n    '''\ndoctest.testmod()\n",
    "doctest.testmod with flags": """
        import doctest
        def g():
            \'\'\'
            >>> [f(1), f(2), f(3)]
            [2,   ...]
            \'\'\'
        doctest.testmod(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        """,
    "doctest.testmod with names": "import doctest\ndef g():\n    \'\'\'\n    >>> f(n)\n    2\n    \'\'\'\n"
    "doctest.testmod(extraglobs={'n': 1})\n",
    "pytest class": "class TestF:\n    def test_one(self):\n        assert f(1) == 2\n",
    "pytest class with setup": """
        class TestF:
            def setup_method(self):
                self.want = 2
            def teardown_method(self, method):
                assert self.want == 2 and method
            def test_one(self):
                assert f(1) == self.want
        """,
    "static test": "class TestF:\n    @staticmethod\n    def test_one():\n        assert f(1) == 2\n",
    "parametrize": """
        import pytest
        @pytest.mark.parametrize("x, want", [(1, 2), pytest.param(2, 3, id="two")])
        @pytest.mark.parametrize("more", [0, 1], ids=["none", "one"])
        def test_f(x, want, more):
            assert f(x + more) == want + more
        """,
    "raises and approx": """
        import pytest
        from pytest import approx
        def test_f():
            assert f(1) == approx(2.0000001)
            assert [f(1), f(2)] == approx([2, 3])
            with pytest.raises(ValueError, match="below") as error:
                f(-1)
            assert str(error.value) == "below 0"
        """,
    "marks": """
        import pytest
        pytestmark = pytest.mark.slow
        @pytest.mark.skip(reason="later")
        def test_a():
            assert False
        @pytest.mark.skipif(True, reason="never")
        class TestB:
            def test_b(self):
                assert False
        @pytest.mark.xfail
        def test_c():
            assert f(1) == 7
        def test_d():
            assert f(1) == 2
        """,
    "fixtures": """
        import pytest
        made = []
        @pytest.fixture(scope="module")
        def one():
            made.append(1)
            return 1
        @pytest.fixture
        def two(one):
            yield one + 1
            made.append("done")
        def test_f(one, two):
            assert f(one) == two
        class TestG:
            @pytest.fixture(autouse=True)
            def three(self):
                self.want = 3
            def test_g(self, two):
                assert f(two) == self.want and made == [1, "done"]
        """,
    "a fixture by another name": """
        import pytest
        @pytest.fixture(name="n")
        def make_n():
            return 1
        def test_f(n):
            assert f(n) == 2
        """,
    "unittest": """
        import unittest
        class T(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.want = 2
            def test_f(self):
                for x in (1, 2):
                    with self.subTest(x=x):
                        self.assertEqual(f(x), self.want + x - 1)
        if __name__ == "__main__":
            unittest.main()
        """,
    "async unittest": """
        import unittest
        class T(unittest.IsolatedAsyncioTestCase):
            async def test_f(self):
                self.assertEqual(f(1), 2)
        """,
    "a suite run by the code": """
        def suite():
            import unittest
            class T(unittest.TestCase):
                def test_a(self):
                    self.assertEqual(f(1), 2)
            unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
        suite()
        """,
    "a result nobody reads": """
        import unittest
        class T(unittest.TestCase):
            def runTest(self):
                self.assertEqual(f(1), 2)
        T().run(unittest.TestResult())
        """,
    "mock": """
        from unittest.mock import patch
        class Clock:
            def now(self):
                return 0
        @patch.object(Clock, "now", return_value=2)
        def test_f(now):
            assert f(1) == Clock().now()
        """,
}  # fmt: skip
PATCHES_THE_LIBRARY = """
from unittest.mock import patch
@patch("os.getcwd", return_value="/")
def test_f(getcwd):
    import os
    assert f(1) == 2 and os.getcwd() == "/"
"""


# An assertion that fails is caught: what swallows it leaves it failed, what goes on to judge it decides.
SWALLOWED = {
    "unittest": "self.assertEqual(f(1), 3)",
    "unittest fails": "self.fail('no')",
    "pytest fails": "pytest.fail('no')",
    "pytest raises": "with pytest.raises(KeyError): f(1)",
    "assert": "assert f(1) == 3",
    "by hand": "if f(1) != 3: raise AssertionError",
    "numpy's way": "check_equal(f(1), 3)",
    "what the program raises": "assert f(-1) == 3",
    "what it raises before": "got = f(-1)\nassert got == 3",
    "what it raises in a helper": "check_equal(f(-1), 3)",
}
SWALLOWING = """
import contextlib, unittest, pytest
def check_equal(a, b):
    if a != b:
        raise AssertionError("not equal")
passed = 0
class T(unittest.TestCase):
    def test_a(self):
        global passed
        self.assertEqual(f(1), 2)
        for one in "ab":
            try:
{what}
                passed += 1
            except {kind}:
                print("wrong")
        print(passed)
"""
JUDGED = [
    "for want in (3, 2):\n    try:\n        assert f(1) == want\n        break\n    except AssertionError:\n"
    "        continue\nelse:\n    raise AssertionError('neither')\n",
    "ok = False\nfor want in (3, 2):\n    try:\n        assert f(1) == want\n        ok = True\n"
    "    except AssertionError:\n        pass\nassert ok\n",
    "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        try:\n"
    "            self.assertEqual(f(1), 3)\n        except AssertionError:\n            self.assertEqual(f(1), 2)\n",
    "def holds(x, want):\n    try:\n        assert f(x) == want\n        return True\n    except AssertionError:\n"
    "        return False\nassert holds(1, 2) and not holds(1, 3)\n",
    "import pytest\nwith pytest.raises(AssertionError):\n    assert f(1) == 3\nassert f(1) == 2\n",
    "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n"
    "        with self.assertRaises(AssertionError):\n"
    "            self.assertEqual(f(1), 3)\n        self.assertEqual(f(1), 2)\n"
    "    @unittest.expectedFailure\n    def test_g(self):\n        self.assertEqual(f(1), 3)\n",
    "failures = []\nfor x, want in [(1, 2), (2, 3)]:\n    try:\n        assert f(x) == want\n"
    "    except AssertionError as error:\n        failures.append(error)\nimport sys\nsys.exit(len(failures))\n",
    "try:\n    assert f(-1) == 0\nexcept ValueError:\n    pass\nassert f(1) == 2\n",
    "try:\n    f(-1)\nexcept Exception:\n    pass\nassert f(1) == 2\n",
    "try:\n    assert f(-1) == 0\nexcept Exception as error:\n    assert isinstance(error, ValueError)\n",
]


async def run(sandbox: Sandbox, source: str, code: str, shared: bool, names: tuple[str, ...] = ()) -> Execution:
    code = textwrap.dedent(code)
    read = test_code.read(code, "f", names, shared)
    test = CheckTest(
        code, read.calls_check, names=read.names, modules=read.modules, shared=shared, unknown=read.unknown
    )
    return await sandbox.execute(Program("p", source, "f", (test,), limits=LIMITS))


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "beside"])
@pytest.mark.parametrize("code", FORMS.values(), ids=FORMS.keys())
async def test_forms(sandbox: Sandbox, code: str, shared: bool) -> None:
    right = await run(sandbox, RIGHT, code, shared)
    assert (right.verdict, right.forgeable) == (Verdict.PASSED, shared), right
    wrong = await run(sandbox, WRONG, code, shared)
    assert wrong.verdict in (Verdict.FAILED, Verdict.RUNTIME_ERROR), wrong


async def test_a_patch_that_a_program_apart_would_not_see_is_refused_by_name(sandbox: Sandbox) -> None:
    apart = await run(sandbox, RIGHT, PATCHES_THE_LIBRARY, shared=False)
    assert apart.verdict is Verdict.NONE
    assert "getcwd, which the program would not see" in apart.failure
    assert (await run(sandbox, RIGHT, PATCHES_THE_LIBRARY, shared=True)).verdict is Verdict.PASSED


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "beside"])
@pytest.mark.parametrize("kind", ["AssertionError", "Exception", "(KeyError, AssertionError)"])
@pytest.mark.parametrize("what", SWALLOWED.values(), ids=SWALLOWED.keys())
async def test_an_assertion_that_is_swallowed_has_failed(sandbox: Sandbox, what: str, kind: str, shared: bool) -> None:
    if "f(-1)" in what and kind != "Exception":
        pytest.skip("it catches no ValueError")
    code = SWALLOWING.format(what=textwrap.indent(what, " " * 16), kind=kind)
    execution = await run(sandbox, RIGHT, code, shared)
    assert (execution.verdict, "caught it" in execution.detail) == (Verdict.FAILED, True), execution


@pytest.mark.parametrize("code", JUDGED)
async def test_what_judges_an_assertion_that_it_catches_decides(sandbox: Sandbox, code: str) -> None:
    right, wrong = [await run(sandbox, source, code, shared=False) for source in (RIGHT, WRONG)]
    assert right.verdict is Verdict.PASSED, right
    assert wrong.verdict in (Verdict.FAILED, Verdict.RUNTIME_ERROR), wrong


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nothing_of_that_name\nassert f(1) == 2", "No module named 'nothing_of_that_name'"),
        ("for x in []:\n    assert f(x) == 2", "never called the program"),
        ("import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('')\n    def test_a(self):\n"
         "        self.assertEqual(f(1), 2)", "never called the program"),
        ("import pytest\nwith pytest.RaisesGroup():\n    assert f(1)", "pytest.RaisesGroup is not offered"),
        ("class TestF:\n    def __init__(self): pass\n    def test_f(self): assert f(1)", "has an __init__"),
        ("class TestF:\n    def test_f(self, pytester): assert f(1) == 2", "takes 'pytester'"),
        ("assert f(1) == isclose(2, 2)", "NameError: 'isclose' is neither defined nor imported"),
        ("eval('f(1')\nassert f(1)", "SyntaxError"),
    ],
)  # fmt: skip
async def test_tests_that_can_judge_no_program(sandbox: Sandbox, code: str, why: str) -> None:
    execution = await run(sandbox, RIGHT, code, shared=False)
    assert (execution.verdict, why in execution.failure, execution.results) == (Verdict.NONE, True, ()), execution


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("def f(x): return []", "for got in f(1):\n    assert got == 2"),
        ("def f(x): return 0", "got = f(1)\nif got:\n    assert got == 2"),
        ("def f(x): return None", "if f(1) is None:\n    undefined_then = 1\nelse:\n    assert f(1) == 2"),
        ("def f(x): return None", "for x in f(1):\n    assert x == 2"),
    ],
)
async def test_no_program_can_have_no_verdict(sandbox: Sandbox, source: str, code: str) -> None:
    """Once it was asked, all that comes of it is its own."""
    execution = await run(sandbox, source, code, shared=False)
    assert execution.verdict in (Verdict.FAILED, Verdict.RUNTIME_ERROR), execution


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "beside"])
async def test_a_module_that_tests_lack(sandbox: Sandbox, shared: bool) -> None:
    code = "def test_f():\n    assert f(1) == 2\n    import nothing_of_that_name"
    execution = await run(sandbox, RIGHT, code, shared)
    assert (execution.verdict, "nothing_of_that_name" in execution.failure) == (Verdict.NONE, True), execution


LENDS = """
class math:
    isclose = staticmethod(lambda *a, **k: True)
class np:
    allclose = staticmethod(lambda *a, **k: True)
class pytest:
    approx = staticmethod(lambda x: 3)
def isclose(a, b, *c, **d): return True
deepcopy = sorted = len = lambda x: 2
def f(x):
    return 3
"""


@pytest.mark.parametrize(
    "code",
    [
        "assert math.isclose(f(1), 2)",
        "from math import isclose\nassert isclose(f(1), 2)",
        "from solution import *\nassert math.isclose(f(1), 2)",
        "import solution\nassert math.isclose(solution.f(1), 2)",
        "import pytest\nassert f(1) == pytest.approx(2)",
        "import copy\nassert copy.deepcopy(f(1)) == 2 == len([f(1)])",
        "assert len([f(1)]) == 2",
    ],
)
async def test_what_a_program_has_under_the_names_of_others_does_not_reach_the_tests(
    sandbox: Sandbox, code: str
) -> None:
    execution = await run(sandbox, LENDS, code, shared=False)
    assert execution.verdict in (Verdict.FAILED, Verdict.RUNTIME_ERROR), execution


async def test_declared_names_come_by_every_way(sandbox: Sandbox) -> None:
    source = "N = 7\ndef g(x): return x + N\ndef f(x): return g(x)\nclass Own(Exception): pass"
    for code in (
        "assert f(1) == g(1) == N + 1 and issubclass(Own, Exception)",
        "from solution import f, g, N, Own\nassert f(1) == g(1) == N + 1",
        "import program\nassert program.f(1) == program.g(1)",
        "from program import *\nassert f(1) == g(1) == N + 1",
    ):
        execution = await run(sandbox, source, code, shared=False, names=("g", "N", "Own"))
        assert execution.verdict is Verdict.PASSED, execution
    lacking = await run(sandbox, "def f(x): return x", "assert f(1) == g(1)", shared=False, names=("g",))
    assert (lacking.verdict, "'g'" in lacking.detail) == (Verdict.RUNTIME_ERROR, True), lacking


BESIDE = """
import time
class Stack:
    def __init__(self, items): self.items = list(items)
    def pop(self): return self.items.pop()
ONE = Stack([])
def f(xs): return Stack(xs)
def g(): return ONE
def now(): return time.time()
def asked(client): return client.get("/x").json()["a"]
"""


@pytest.mark.parametrize(
    "code",
    [
        "s = f([1, 2])\nassert s.pop() == 2 and s.pop() == 1",
        "assert g() is g() is ONE and isinstance(f([]), Stack)",
        "from unittest.mock import patch\nwith patch('time.time', return_value=5):\n    assert now() == 5 and f([])",
        "from unittest.mock import MagicMock\nc = MagicMock()\nc.get.return_value.json.return_value = {'a': 1}\n"
        "assert asked(c) == 1 and f([])\nc.get.assert_called_once_with('/x')",
        "from unittest import TestCase\nclass T(TestCase):\n    def test_f(self): self.assertEqual(f([1]).pop(), 1)",
    ],
)
async def test_beside_the_program(sandbox: Sandbox, code: str) -> None:
    execution = await run(sandbox, BESIDE, code, shared=True)
    assert (execution.verdict, execution.forgeable) == (Verdict.PASSED, True), execution
    assert execution.results[0].forgeable


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("def f(x): return 3", Verdict.FAILED),
        ("def f(x): return 1 / 0", Verdict.RUNTIME_ERROR),
        ("def f(x): assert False", Verdict.RUNTIME_ERROR),
        ("def f(x) return", Verdict.COMPILE_ERROR),
        ("import os\ndef f(x): os._exit(0)", Verdict.RUNTIME_ERROR),
        ("def f(x):\n    while True: pass", Verdict.TIME_LIMIT),
        ("g = 1", Verdict.RUNTIME_ERROR),
        ("import os\nos.write(3, b'passed\\n')\ndef f(x): return 3", Verdict.TAMPERED),
    ],
)
async def test_verdicts_beside_the_program(sandbox: Sandbox, source: str, verdict: Verdict) -> None:
    execution = await run(sandbox, source, "assert f(1) == 2", shared=True)
    assert (execution.verdict, execution.forgeable) == (verdict, True), execution
