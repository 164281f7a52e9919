"""Call tests of honest and of wrong programs, in the real cage."""

import asyncio
import textwrap
from dataclasses import replace
from datetime import timedelta

import pytest

from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, Limits, Program, Test
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20, output_bytes=64 << 10)


def program(source: str, *tests: Test, stdin: str = "") -> Program:
    return Program("p", textwrap.dedent(source), "f", tests, stdin, LIMITS)


def passed(execution: Execution) -> list[bool]:
    return [result.passed for result in execution.results]


VALUES = [
    None,
    True,
    0,
    -1,
    2**70,
    -(2**70),
    1.5,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-300,
    1j,
    "",
    "é\n\x00\U0001f600",
    "\ud800",
    b"\x00\xff",
    [],
    [1, [2, [3]]],
    (),
    (1, "a"),
    {},
    {"a": 1, 2: [None]},
    {(1, 2): {3}},
    set(),
    {1, "a"},
    frozenset({1}),
    [True, 1, 1.0],
    {"a": (1,)},
    "x" * 10_000,
    list(range(5_000)),
    {"d": 1},
    {"t": [1]},
    [{"o": 1}],
    10**5000,
]


# Numbered: how a set is written differs from one process to the next.
@pytest.mark.parametrize("value", VALUES, ids=[str(number) for number in range(len(VALUES))])
async def test_values_cross_both_ways_and_keep_their_type(sandbox: Sandbox, value: object) -> None:
    source = "def f(x):\n    return x, type(x).__name__\n"
    execution = await sandbox.execute(program(source, CallTest((value,), (value, type(value).__name__))))
    assert execution.verdict is Verdict.PASSED, execution.results


async def test_subclasses_cross_as_their_base(sandbox: Sandbox) -> None:
    source = """
        import collections, enum, typing
        class Color(enum.IntEnum):
            RED = 1
        class Pair(typing.NamedTuple):
            a: int
        def f(which):
            return [collections.Counter("aab"), collections.defaultdict(int, {1: 2}), Color.RED, Pair(3),
                    collections.OrderedDict(a=1)][which]
    """
    wanted = [{"a": 2, "b": 1}, {1: 2}, 1, (3,), {"a": 1}]
    execution = await sandbox.execute(program(source, *(CallTest((i,), value) for i, value in enumerate(wanted))))
    assert execution.verdict is Verdict.PASSED, execution.results


async def test_each_test_has_its_result_and_the_first_that_fails_is_the_verdict(sandbox: Sandbox) -> None:
    source = "def f(x):\n    return [1, 9][x] if x < 2 else undefined\n"
    tests = [CallTest((0,), 1), CallTest((1,), 2), CallTest((2,), 3), CallTest((0,), 1)]
    execution = await sandbox.execute(program(source, *tests))
    assert execution.verdict is Verdict.FAILED
    assert passed(execution) == [True, False, False, True]
    assert (execution.results[1].got, execution.results[1].expected) == ("9", "2")
    assert execution.results[2].error.startswith("NameError: name 'undefined'")
    assert (execution.tests_passed, execution.tests_total) == (2, 4)


async def test_results_before_a_limit_are_kept(sandbox: Sandbox) -> None:
    source = "def f(x):\n    while x == 2:\n        pass\n    return x\n"
    execution = await sandbox.execute(program(source, *(CallTest((x,), x) for x in (0, 1, 2, 3))))
    assert execution.verdict is Verdict.TIME_LIMIT
    assert passed(execution) == [True, True, False]
    assert timedelta(seconds=0.9) < execution.cpu_time < timedelta(seconds=1.6)


@pytest.mark.parametrize(
    ("source", "verdict", "detail"),
    [
        ("def f(x) return 1", Verdict.COMPILE_ERROR, "SyntaxError"),
        ("import numpy_that_is_not_there", Verdict.RUNTIME_ERROR, "ModuleNotFoundError"),
        ("def g(x): return 1", Verdict.RUNTIME_ERROR, "defines no 'f'"),
        ("f = 3", Verdict.RUNTIME_ERROR, "not callable"),
        ("def f(): return 2", Verdict.RUNTIME_ERROR, "TypeError"),
        ("", Verdict.RUNTIME_ERROR, "defines no 'f'"),
        ("def f(x):\n    raise MemoryError", Verdict.MEMORY_LIMIT, ""),
        ("x = 'a' * 10**9", Verdict.MEMORY_LIMIT, ""),
        ("while True: pass", Verdict.TIME_LIMIT, "CPU time"),
        ("def f(x): input()", Verdict.RUNTIME_ERROR, "EOFError"),
        ("def f(x): print(x); return 2", Verdict.PASSED, ""),
        ("if __name__ == '__main__':\n    raise SystemExit\nf = lambda x: 2", Verdict.PASSED, ""),
        (
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nf = lambda x: A(2).x",
            Verdict.PASSED,
            "",
        ),
        (
            "import threading\ndef f(x):\n    r = []\n    t = threading.Thread(target=r.append, args=(2,))\n"
            "    t.start(); t.join(); return r[0]",
            Verdict.PASSED,
            "",
        ),
        ("import asyncio\nasync def g(): return 2\nf = lambda x: asyncio.run(g())", Verdict.PASSED, ""),
        (
            "import tempfile\ndef f(x):\n    with tempfile.TemporaryFile() as t:\n        return t.write(b'ab')",
            Verdict.PASSED,
            "",
        ),
        (
            "import json, re, math, hashlib, sqlite3, zoneinfo, unicodedata, ctypes\nf = lambda x: 2",
            Verdict.PASSED,
            "",
        ),
        ("import zoneinfo\nf = lambda x: zoneinfo.ZoneInfo('Europe/Paris') and 2", Verdict.PASSED, ""),
        ("f = lambda x: 2.0000001", Verdict.FAILED, ""),
        ("f = lambda x: 2.1", Verdict.FAILED, ""),
        ("f = lambda x: [2]", Verdict.FAILED, ""),
        ("f = lambda x: True + 1", Verdict.PASSED, ""),
    ],
)
async def test_verdicts_of_call_tests(sandbox: Sandbox, source: str, verdict: Verdict, detail: str) -> None:
    execution = await sandbox.execute(program(source, CallTest((1,), 2)))
    assert execution.verdict is verdict, execution
    assert detail in execution.detail


async def test_exceptions_orders_and_methods_are_expected(sandbox: Sandbox) -> None:
    source = """
        import json
        class Own(ValueError): pass
        class Solution:
            def __init__(self): self.seen = []
            def f(self, x):
                self.seen.append(x)
                if x == 0: raise Own("zero")
                if x < 0: json.loads("{")
                return self.seen
        """
    tests = (
        CallTest((1,), [1]),
        CallTest((2,), [2]),
        CallTest((0,), raises="Own"),
        CallTest((0,), raises="ValueError"),
        CallTest((-1,), raises="JSONDecodeError"),
        CallTest((0,), raises="KeyError"),
    )
    execution = await sandbox.execute(replace(program(source, *tests), entry_point="Solution.f"))
    assert passed(execution) == [True] * 5 + [False]
    assert execution.results[3].got == "Own: zero"
    unordered = program("f = lambda x: [3, x, 2]", CallTest((1,), [1, 2, 3], unordered=True))
    assert (await sandbox.execute(unordered)).verdict is Verdict.PASSED


async def test_held_out_tests_count_and_are_not_shown(sandbox: Sandbox) -> None:
    source = "def f(x):\n    print('seen', x)\n    return {1: 2}[x]"
    tests = (CallTest((1,), 2), CallTest(("SECRET",), "SECRET", held_out=True))
    execution = await sandbox.execute(program(source, *tests))
    # and not how it failed, which the program may choose by what it was asked
    assert (execution.verdict, passed(execution)) == (Verdict.FAILED, [True, False])
    assert "SECRET" not in repr(execution)


async def test_hash_order_and_random_numbers_are_the_same_every_time(sandbox: Sandbox) -> None:
    source = "import random\nprint(list({'a', 'b', 'c', 'd'}), random.random(), hash('x'))\n"
    executions = await asyncio.gather(*(sandbox.execute(program(source)) for _ in range(8)))
    assert len({execution.stdout for execution in executions}) == 1


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x + 1\n", Verdict.PASSED),
        ("async def f(x):\n    return x\n", Verdict.FAILED),
        ("async def f(x):\n    raise ValueError(x)\n", Verdict.RUNTIME_ERROR),
    ],
)
async def test_a_coroutine_is_awaited(sandbox: Sandbox, source: str, verdict: Verdict) -> None:
    assert (await sandbox.execute(program(source, CallTest((1,), 2)))).verdict is verdict


ODD = {
    "a Fraction without a denominator": "q = Fraction(1, 2)\n    q._numerator = q._denominator = 0\n    return q",
    "a Fraction below its line": "q = Fraction(1, 2)\n    q._denominator = -2\n    return q",
    "a Fraction of floats": "q = Fraction(1, 2)\n    q._numerator = float('nan')\n    return q",
    "a Fraction of words": "q = Fraction(1, 2)\n    q._numerator = 'one'\n    return q",
    "a ChainMap of itself": "c = ChainMap()\n    c.maps = [c]\n    return c",
    "an OrderedDict of itself": "d = OrderedDict()\n    d['a'] = d\n    return d",
    "a deque of itself": "d = deque()\n    d.append(d)\n    return d",
    "a UserList of itself": "c = UserList()\n    c.data = c\n    return c",
    "a UserDict of itself": "c = UserDict()\n    c.data = c\n    return c",
    "a UserDict of words": "c = UserDict()\n    c.data = 'words'\n    return c",
    "too deep": "t = ()\n    for i in range(1000):\n        t = (t,)\n    return t",
}


@pytest.mark.parametrize("body", ODD.values(), ids=list(ODD))
async def test_an_answer_that_is_no_value_is_wrong_and_no_forgery(sandbox: Sandbox, body: str) -> None:
    source = f"from collections import *\nfrom fractions import Fraction\ndef f():\n    {body}\n"
    for expected in (5, [1], {}, ()):
        execution = await sandbox.execute(program(source, CallTest((), expected)))
        assert (execution.verdict, execution.signs) == (Verdict.FAILED, ()), execution


LAYERS = {
    "tuples": ("t = (i, t)", "got = (i, got)"),
    "lists": ("t = [i, t]", "got = [i, got]"),
    "dicts": ("t = {i: t}", "got = {i: got}"),
    "sets": ("t = frozenset([i, t])", "got = frozenset([i, got])"),
    "pairs": ("t = [(i, t)] if i % 2 else (i, t)", "got = [(i, got)] if i % 2 else (i, got)"),
}


@pytest.mark.parametrize(("answers", "expects"), LAYERS.values(), ids=list(LAYERS))
async def test_answers_may_be_nested_deeply(sandbox: Sandbox, answers: str, expects: str) -> None:
    source = f"""
        def f():
            t = ()
            for i in range(60):
                {answers}
            return t
    """
    names: dict[str, object] = {"got": ()}
    for i in range(60):
        exec(expects, {"i": i}, names)
    execution = await sandbox.execute(program(source, CallTest((), names["got"])))
    assert execution.verdict is Verdict.PASSED, execution


async def test_what_a_userdict_holds_may_be_a_dict_of_another_kind(sandbox: Sandbox) -> None:
    source = """
        from collections import OrderedDict, UserDict, UserList, defaultdict
        class Mine(UserDict):
            pass
        class Items(list):
            pass
        def f(which):
            made = [Mine(), UserDict(), UserList()][which]
            made.data = [OrderedDict(a=1), defaultdict(int, {"a": 1}), Items([1])][which]
            return made
    """
    tests = [CallTest((0,), {"a": 1}), CallTest((1,), {"a": 1}), CallTest((2,), [1])]
    execution = await sandbox.execute(program(source, *tests))
    assert execution.verdict is Verdict.PASSED, execution
