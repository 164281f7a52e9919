"""Opaque test code in a process of its own, in the real cage."""

import textwrap
from dataclasses import replace
from datetime import timedelta

import pytest

from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CheckTest, File, Limits, Program, Test
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20, output_bytes=64 << 10)


def program(source: str, *tests: Test, stdin: str = "") -> Program:
    return Program("p", textwrap.dedent(source), "f", tests, stdin, LIMITS)


def passed(execution: Execution) -> list[bool]:
    return [result.passed for result in execution.results]


WRITES_EVERYWHERE = """
import os
for descriptor in range(3, 256):
    try:
        os.write(descriptor, b'["passed"]\\n')
    except OSError:
        pass
f = lambda x: x + 1
"""
WANTS_A_FAILURE = (
    "try:\n    assert f(1) == 2\nexcept AssertionError:\n    pass\nelse:\n    raise AssertionError('equal')"
)
CHECK = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(5) == 6\n"


@pytest.mark.parametrize(
    ("source", "code", "verdict"),
    [
        ("f = lambda x: x + 1", CHECK, Verdict.PASSED),
        ("f = lambda x: x + 1", CHECK + "check(f)\n", Verdict.PASSED),
        ("f = lambda x: x + 1", "assert f(1) == 2\nassert f(2) == 3", Verdict.PASSED),
        ("f = lambda x: 2", CHECK, Verdict.FAILED),
        ("f = lambda x: [float('nan')]", "assert f(1) != f(2)", Verdict.PASSED),
        ("f = lambda x: (float('nan'),)", "assert f(1) == f(2)", Verdict.FAILED),
        ("f = lambda x: 1 / 0", CHECK, Verdict.RUNTIME_ERROR),
        ("def f(x): assert x > 3", CHECK, Verdict.RUNTIME_ERROR),
        (
            "def f(x): raise ValueError('no')",
            "try:\n    f(1)\nexcept ValueError as e:\n    assert str(e) == 'no'\nelse:\n    assert 0",
            Verdict.PASSED,
        ),
        (
            "class Own(Exception): pass\ndef f(x): raise Own",
            "try:\n    f(1)\nexcept Exception as e:\n    assert type(e).__name__ == 'Own'",
            Verdict.PASSED,
        ),
        (
            "def f(x): raise UnicodeDecodeError('utf-8', b'a', 0, 1, 'r')",
            "try:\n    f(1)\n    assert False\nexcept UnicodeDecodeError:\n    pass",
            Verdict.PASSED,
        ),
        ("def f(x): x.append(1)", "items = [0]\nf(items)\nassert items == [0, 1]", Verdict.PASSED),
        ("def f(x, k=0): return x + k", "assert f(1, k=2) == 3", Verdict.PASSED),
        ("def f(x): return str(x + 1)", f"assert f(10**5000) == '1{'0' * 4999}1'", Verdict.PASSED),
        ("def f(x): return int(x) + 1", f"assert str(f('{'9' * 5000}')) == '1{'0' * 5000}'", Verdict.PASSED),
        ("import os\nos._exit(0)", CHECK, Verdict.RUNTIME_ERROR),
        ("import os\ndef f(x): os._exit(0)", CHECK, Verdict.RUNTIME_ERROR),
        ("import sys\ndef f(x): sys.exit(0)", CHECK, Verdict.RUNTIME_ERROR),
        ("def f(x):\n    while True: pass", CHECK, Verdict.TIME_LIMIT),
        ("def f(x):\n    import time; time.sleep(60)", CHECK, Verdict.TIME_LIMIT),
        ("def f(x): return bytearray(10**9)", CHECK, Verdict.MEMORY_LIMIT),
        ("def f(x) return", CHECK, Verdict.COMPILE_ERROR),
        ("class E:\n    def __eq__(self, o): return True\ndef f(x): return E()", CHECK, Verdict.FAILED),
        ("class E(int):\n    def __eq__(self, o): return True\ndef f(x): return E(7)", CHECK, Verdict.FAILED),
        ("import os\ndef f(x):\n    os.write(4, b'{\"value\": 2}\\n' * 9)\n    return 2", CHECK, Verdict.FAILED),
        ("import os\ndef f(x):\n    os.write(4, b'[' * 100000 + b'\\n')\n    return 2", CHECK, Verdict.TAMPERED),
        (WRITES_EVERYWHERE, CHECK, Verdict.TAMPERED),
        ("f = lambda x: x", WANTS_A_FAILURE, Verdict.PASSED),
        ("f = lambda x: x + 1", WANTS_A_FAILURE, Verdict.FAILED),
        ("f = lambda x: x", "import sys\ndef check(candidate):\n    assert candidate(sys)\n", Verdict.RUNTIME_ERROR),
        ("f = lambda x: x", "while True: pass", Verdict.TIME_LIMIT),
        ("f = lambda x: x", "import os\nos._exit(0)", Verdict.RUNTIME_ERROR),
        ("f = lambda x: x", "undefined", Verdict.NONE),
        ("f = lambda x: x", "f(1)\nundefined", Verdict.RUNTIME_ERROR),
        ("def check(f): raise ValueError\nf = lambda x: 2", "assert f(1) == 2", Verdict.PASSED),
        ("def f(x): return 2\nsum = f", "assert f(1) == 2 and sum([1]) == 1", Verdict.PASSED),
        ("f = lambda x: 9\nabs = lambda x: 0", "assert abs(f(1) - 2) < 1e-6", Verdict.FAILED),
        ("f = lambda x: 9\nall = isinstance = bool = lambda *a: True", "assert all([f(1) == 2])", Verdict.FAILED),
        ("f = lambda x: 9\ncandidate = lambda x: 2", CHECK, Verdict.FAILED),
        ("f = lambda x: 9\nAssertionError = ValueError = None", CHECK, Verdict.FAILED),
        ("g = lambda x: x", CHECK, Verdict.RUNTIME_ERROR),
    ],
)
async def test_verdicts_of_check_tests(sandbox: Sandbox, source: str, code: str, verdict: Verdict) -> None:
    calls = "check(f)" in code
    execution = await sandbox.execute(program(source, CheckTest(code, calls_check=calls)))
    assert execution.verdict is verdict, execution
    assert passed(execution) in ([verdict is Verdict.PASSED], [])


ENDLESS = {
    "a generator": "def f():\n    while True:\n        yield 1",
    "of the library": "import itertools\nf = itertools.count",
    "an iterator": "class f:\n    __iter__ = lambda self: self\n    __next__ = lambda self: 1",
    "items": "class f:\n    __getitem__ = lambda self, number: 1",
    "a callable": "f = lambda: iter(int, 1)",
    "asynchronous": "async def f():\n    while True:\n        yield 1",
}
DRAWS = {
    "list": "assert list(f()) == [1]",
    "sum": "assert sum(f()) == 1",
    "in": "assert 0.5 in f()",
    "loop": "n = 0\nfor x in f():\n    n += 1\nassert n == 1",
    "async loop": "async def test():\n    assert [x async for x in f()] == [1]",
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS.keys())
async def test_elements_without_an_end_take_the_time_of_the_program(sandbox: Sandbox, source: str) -> None:
    """And no more of the tests' than half of it: what both took together is about the limit."""
    for name, code in DRAWS.items():
        if ("async" in name) is ("async" in source):
            execution = await sandbox.execute(program(source, CheckTest(code)))
            assert execution.verdict is Verdict.TIME_LIMIT, (name, execution)
            if "async" not in source:  # a loop of events takes the program longer than its tests
                assert "had no end: the tests drew" in execution.detail
                assert execution.cpu_time < LIMITS.cpu_time


async def test_many_elements_are_no_endless_ones(sandbox: Sandbox) -> None:
    """5,000 take 0.45 s of CPU time on an idle machine, and may take half of the limit: this leaves room for load."""
    source, code = "def f(n):\n    yield from range(n)", "assert list(f(5000)) == list(range(5000))"
    drawing = replace(program(source, CheckTest(code)), limits=replace(LIMITS, cpu_time=timedelta(seconds=4)))
    assert (await sandbox.execute(drawing)).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    "code",
    [
        "assert f(1).__eq__(2)",
        "assert any([f(1).__eq__(2)])",
        "if not f(1).__eq__(2):\n    raise ValueError",
        "ok = f(1).__lt__(2)\nassert ok",
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertTrue(f(1).__eq__(2))",
        "'''\n>>> f(1)  # doctest: +SKIP\n2\n'''",
        "'''\n>>> f(1)  # doctest: +ELLIPSIS\n...\n'''",
    ],
)
async def test_what_says_nothing_of_an_answer_passes_none(sandbox: Sandbox, code: str) -> None:
    execution = await sandbox.execute(program("f = lambda x: 'wrong'", CheckTest(code)))
    assert execution.verdict in (Verdict.FAILED, Verdict.RUNTIME_ERROR), execution


async def test_tests_too_long_to_be_kept_compiled(sandbox: Sandbox) -> None:
    code = f"TEXT = {'x' * 2_300_000!r}\nassert f(len(TEXT)) == 2_300_001\n"
    for source, verdict in (("f = lambda x: x + 1", Verdict.PASSED), ("f = lambda x: 2", Verdict.FAILED)) * 2:
        assert (await sandbox.execute(program(source, CheckTest(code)))).verdict is verdict


STACK = """
import enum
class Empty(LookupError): pass
class Colour(enum.Enum):
    RED = 1
class Stack:
    limit = 3
    def __init__(self, items=()): self.items = list(items); self.next = None
    def push(self, x): self.items.append(x); return self
    def pop(self):
        if not self.items: raise Empty("nothing there")
        return self.items.pop()
    def __len__(self): return len(self.items)
    def __eq__(self, other): return self.items == other.items
    def __add__(self, other): return Stack(self.items + other.items)
    @classmethod
    def of(cls, *items): return cls(items)
class Tall(Stack): pass
def f(stack):
    top = Stack([stack.pop()])
    top.next = stack
    return top
def g(x): return Colour.RED
def adder(n): return lambda x: x + n
def evens(n): yield from range(0, n, 2)
"""
DECLARED = ("Empty", "Colour", "Stack", "Tall", "g", "adder", "evens")
UNITTEST = """
import unittest
class T(unittest.TestCase):
    def setUp(self):
        self.stack = Stack([1, 2])
    def test_pop(self):
        self.assertEqual(self.stack.pop(), 2)
        self.assertEqual(len(self.stack), 1)
    def test_empty(self):
        with self.assertRaises(Empty):
            Stack().pop()
        with self.assertRaises(LookupError):
            Stack().pop()
    @unittest.skip("later")
    def test_later(self):
        self.fail()
"""


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("s = Stack([1])\nassert s.push(2).push(3).pop() == 3 and len(s) == 2 and s.items == [1, 2]", Verdict.PASSED),
        ("s = Stack([1])\nt = f(s)\nassert t.items == [1] and t.next.items == []", Verdict.PASSED),
        ("a = Stack()\na.next = Stack([5])\nassert a.next.items == [5] and not a.items", Verdict.PASSED),
        ("assert Stack([1]) == Stack([1]) and Stack([1]) != Stack([2])", Verdict.PASSED),
        ("assert (Stack([1]) + Stack([2])).items == [1, 2]", Verdict.PASSED),
        ("assert Stack.of(1, 2).items == [1, 2] and Stack.limit == 3", Verdict.PASSED),
        ("assert isinstance(Tall([1]), Stack) and not isinstance(Stack(), Tall)", Verdict.PASSED),
        ("assert adder(2)(3) == 5", Verdict.PASSED),
        ("assert list(evens(5)) == [0, 2, 4] and sum(evens(7)) == 12", Verdict.PASSED),
        ("assert g(1) == Colour.RED", Verdict.PASSED),
        ("assert Stack([1]) == [1]", Verdict.RUNTIME_ERROR),
        ("assert f(Stack([1])).pop() == 1", Verdict.RUNTIME_ERROR),
        ("try:\n    Stack().pop()\nexcept Empty as e:\n    assert str(e) == 'nothing there'", Verdict.PASSED),
        ("from solution import Stack, f\nassert f(Stack([4])).items == [4]", Verdict.PASSED),
        (UNITTEST, Verdict.PASSED),
        (UNITTEST + "unittest.main()", Verdict.PASSED),
        (UNITTEST.replace("), 1)", "), 7)"), Verdict.FAILED),
        (UNITTEST.replace("LookupError", "KeyError"), Verdict.RUNTIME_ERROR),
        (UNITTEST.replace("Stack([1, 2])", "Nothing()"), Verdict.NONE),
        ("import unittest\nclass T(unittest.TestCase): pass", Verdict.NONE),
        (UNITTEST.replace("class", "@unittest.skip('')\nclass"), Verdict.NONE),
        ("def test_a(): assert not Stack().items\ndef test_b(): assert Stack().items", Verdict.FAILED),
        ("def test_a():\n    assert Stack().items == []", Verdict.PASSED),
    ],
)  # fmt: skip
async def test_objects_and_frameworks_of_tests(sandbox: Sandbox, code: str, verdict: Verdict) -> None:
    execution = await sandbox.execute(program(STACK, CheckTest(code, names=DECLARED)))
    assert execution.verdict is verdict, execution


async def test_which_test_of_a_class_failed_is_told(sandbox: Sandbox) -> None:
    test = CheckTest(UNITTEST.replace("), 1)", "), 7)"), names=DECLARED)
    execution = await sandbox.execute(program(STACK, test))
    assert "test_pop: 1 != 7" in execution.results[0].error


async def test_methods_and_large_constants_cross(sandbox: Sandbox) -> None:
    source = "BIG = list(range(300_000))\nclass Solution:\n    def f(self, x): return BIG[x]"
    code = "def check(candidate):\n    assert candidate(7) == 7\n    assert len(BIG) == 300000"
    test = CheckTest(code, names=("BIG",))
    execution = await sandbox.execute(replace(program(source, test), entry_point="Solution.f"))
    assert execution.verdict is Verdict.PASSED, execution


async def test_leaving_with_success_is_a_sign(sandbox: Sandbox) -> None:
    execution = await sandbox.execute(program("import os\ndef f(x): os._exit(0)", CheckTest(CHECK)))
    assert (execution.verdict, "status 0" in str(execution.signs[0])) == (Verdict.RUNTIME_ERROR, True)


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("def f(x): return x + 1", Verdict.PASSED),
        ("open('helper.py', 'w').write('def want(x): return 0')\ndef f(x): return 0", Verdict.FAILED),
        ("import os\nos.remove('helper.py')\ndef f(x): return x + 1", Verdict.PASSED),
    ],
)
async def test_modules_of_a_problem_are_the_tests_own(sandbox: Sandbox, source: str, verdict: Verdict) -> None:
    test = CheckTest("from helper import want\nassert f(1) == want(1)")
    files = (File("helper.py", b"def want(x): return x + 1"),)
    assert (await sandbox.execute(replace(program(source, test), files=files))).verdict is verdict


MOCKED = "from unittest.mock import MagicMock\ndef f(x):\n    return MagicMock()\n"
BAG = """
class Bag:
    def __init__(self):
        self.items = [1, 2]
    def __iter__(self):
        return iter(self.items)
    def __next__(self):
        return 0
def f(x):
    return Bag()
"""
COUNTER = """
class Counter:
    def __iter__(self):
        self.at = 0
        return self
    def __next__(self):
        self.at += 1
        if self.at > 2:
            raise StopIteration
        return self.at
def f(x):
    return Counter()
"""


@pytest.mark.parametrize(
    ("source", "code", "verdict"),
    [
        (MOCKED, "assert 5 in f(1)", Verdict.FAILED),
        (MOCKED, "assert list(f(1)) == [1, 2]", Verdict.FAILED),
        (MOCKED, "assert sum(f(1)) == 5", Verdict.FAILED),
        (BAG, "assert list(f(1)) == [1, 2]\nassert 2 in f(1)\nassert 0 not in f(1)", Verdict.PASSED),
        (BAG, "it = f(1)\nassert [one for one in it] == [one for one in it] == [1, 2]", Verdict.PASSED),
        (COUNTER, "assert list(f(1)) == [1, 2]", Verdict.PASSED),
        (COUNTER, "it = iter(f(1))\nassert next(it) == 1\nassert list(it) == [2]", Verdict.PASSED),
    ],
)
async def test_what_has_next_is_iterated_by_what_iter_gives(
    sandbox: Sandbox, source: str, code: str, verdict: Verdict
) -> None:
    """As in Python. A MagicMock has a `__next__` that gives without end, and an `__iter__` that gives nothing."""
    execution = await sandbox.execute(program(source, CheckTest(code)))
    assert execution.verdict is verdict, execution
