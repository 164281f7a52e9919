"""Honest programs, and those that are simply wrong, through the real cage."""

import asyncio
import json
import os
import signal
import textwrap
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import psutil
import pytest
import pytest_asyncio

from sandbox_service.adapters.zygotes import ZygoteExecutor, ZygoteOptions
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.ports import CallJob
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest, Test
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20, output_bytes=64 << 10)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor() -> AsyncIterator[ZygoteExecutor]:
    options = ZygoteOptions(lanes=2, wall_factor=1.5, wall_extra=timedelta(seconds=1))
    async with ZygoteExecutor(options) as executor:
        yield executor


@pytest.fixture
def sandbox(executor: ZygoteExecutor) -> Sandbox:
    return Sandbox(executor, queue_limit=1000)


def program(source: str, *tests: Test, stdin: str = "", entry_point: str = "f") -> Program:
    return Program("p", textwrap.dedent(source), entry_point, tests, stdin, LIMITS)


def verdicts(execution: Execution) -> list[bool]:
    return [result.passed for result in execution.results]


VALUES = [
    None, True, 0, -1, 2**70, -(2**70), 1.5, float("inf"), float("-inf"), float("nan"), 1e-300, 1j, "", "é\n\x00\U0001f600", "\ud800",
    b"\x00\xff", [], [1, [2, [3]]], (), (1, "a"), {}, {"a": 1, 2: [None]}, {(1, 2): {3}}, set(), {1, "a"}, frozenset({1}),
    [True, 1, 1.0], {"a": (1,)}, "x" * 10_000, list(range(5_000)), {"d": 1}, {"t": [1]}, [{"o": 1}], 10**5000,
]  # fmt: skip


@pytest.mark.parametrize(
    "value", VALUES, ids=lambda value: ascii(value)[:30] if not isinstance(value, int) else str(value % 997)
)
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
    assert verdicts(execution) == [True, False, False, True]
    assert (execution.results[1].got, execution.results[1].expected) == ("9", "2")
    assert execution.results[2].error.startswith("NameError: name 'undefined'")
    assert (execution.tests_passed, execution.tests_total) == (2, 4)


async def test_results_before_a_limit_are_kept(sandbox: Sandbox) -> None:
    source = "def f(x):\n    while x == 2:\n        pass\n    return x\n"
    execution = await sandbox.execute(program(source, *(CallTest((x,), x) for x in (0, 1, 2, 3))))
    assert execution.verdict is Verdict.TIME_LIMIT
    assert verdicts(execution) == [True, True, False]
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
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nf = lambda x: A(2).x", Verdict.PASSED, ""),
        ("import threading\ndef f(x):\n    r = []\n    t = threading.Thread(target=r.append, args=(2,))\n"
         "    t.start(); t.join(); return r[0]", Verdict.PASSED, ""),
        ("import asyncio\nasync def g(): return 2\nf = lambda x: asyncio.run(g())", Verdict.PASSED, ""),
        ("import tempfile\ndef f(x):\n    with tempfile.TemporaryFile() as t:\n        return t.write(b'ab')", Verdict.PASSED, ""),
        ("import json, re, math, random, hashlib, itertools, sqlite3, zoneinfo, unicodedata, ctypes\nf = lambda x: 2", Verdict.PASSED, ""),
        ("import zoneinfo\nf = lambda x: zoneinfo.ZoneInfo('Europe/Paris') and 2", Verdict.PASSED, ""),
        ("f = lambda x: 2.0000001", Verdict.PASSED, ""),
        ("f = lambda x: 2.1", Verdict.FAILED, ""),
        ("f = lambda x: [2]", Verdict.FAILED, ""),
        ("f = lambda x: True + 1", Verdict.PASSED, ""),
    ],
)  # fmt: skip
async def test_verdicts_of_call_tests(sandbox: Sandbox, source: str, verdict: Verdict, detail: str) -> None:
    execution = await sandbox.execute(program(source, CallTest((1,), 2)))
    assert execution.verdict is verdict, execution
    assert detail in execution.detail


async def test_hash_order_and_random_numbers_are_the_same_every_time(sandbox: Sandbox) -> None:
    source = "import random\nprint(list({'a', 'b', 'c', 'd'}), random.random(), hash('x'))\n"
    executions = await asyncio.gather(*(sandbox.execute(program(source)) for _ in range(8)))
    assert len({execution.stdout for execution in executions}) == 1


async def test_scripts(sandbox: Sandbox) -> None:
    source = "n = int(input())\nprint(sum(int(input()) for _ in range(n)))\n"
    tests = [StdioTest("2\n1\n2\n", "3"), StdioTest("1\n5", " 5 \n\n"), StdioTest("1\n5", "6"), StdioTest("", "0")]
    execution = await sandbox.execute(program(source, *tests))
    assert execution.verdict is Verdict.FAILED
    assert verdicts(execution) == [True, True, False, False]
    assert (execution.results[2].got, execution.results[2].expected) == ("5\n", "6")
    assert "EOFError" in execution.results[3].error


@pytest.mark.parametrize(
    ("source", "verdict", "stdout"),
    [
        ("print(input())", Verdict.PASSED, "hello\n"),
        ("import sys\nsys.exit(0)", Verdict.PASSED, ""),
        ("exit()", Verdict.PASSED, ""),
        ("raise SystemExit('no')", Verdict.RUNTIME_ERROR, ""),
        ("import sys; print('x'); sys.exit(3)", Verdict.RUNTIME_ERROR, "x\n"),
        ("assert False, 'why'", Verdict.RUNTIME_ERROR, ""),
        ("print('a' * 70000)", Verdict.OUTPUT_LIMIT, None),
        ("print('a' * 60000)", Verdict.PASSED, None),
        ("import atexit\natexit.register(print, 'bye')", Verdict.PASSED, "bye\n"),
        ("import threading, time\nthreading.Timer(0.05, print, ('late',)).start()", Verdict.PASSED, "late\n"),
        ("import sys\nsys.stdout.buffer.write(b'\\xff')", Verdict.PASSED, "\ufffd"),
        ("print(__name__, __import__('sys').argv)", Verdict.PASSED, "__main__ ['program.py']\n"),
    ],
)
async def test_programs_without_tests(sandbox: Sandbox, source: str, verdict: Verdict, stdout: str | None) -> None:
    execution = await sandbox.execute(program(source, stdin="hello"))
    assert execution.verdict is verdict, execution
    assert stdout is None or execution.stdout == stdout


async def test_a_trace_is_the_programs_own(sandbox: Sandbox) -> None:
    execution = await sandbox.execute(program("def g():\n    raise ValueError('why')\ng()\n"))
    assert execution.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert execution.stderr.splitlines()[-1] == "ValueError: why"
    assert "cage" not in execution.stderr
    assert execution.detail == "ValueError: why"


CHECK = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(5) == 6\n"


@pytest.mark.parametrize(
    ("source", "code", "verdict"),
    [
        ("f = lambda x: x + 1", CHECK, Verdict.PASSED),
        ("f = lambda x: x + 1", CHECK + "check(f)\n", Verdict.PASSED),
        ("f = lambda x: x + 1", "assert f(1) == 2\nassert f(2) == 3", Verdict.PASSED),
        ("f = lambda x: 2", CHECK, Verdict.FAILED),
        ("f = lambda x: 1 / 0", CHECK, Verdict.RUNTIME_ERROR),
        ("def f(x): assert x > 3", CHECK, Verdict.RUNTIME_ERROR),
        ("def f(x): raise ValueError('no')", "try:\n    f(1)\nexcept ValueError as e:\n    assert str(e) == 'no'\nelse:\n    assert 0", Verdict.PASSED),
        ("class Own(Exception): pass\ndef f(x): raise Own", "try:\n    f(1)\nexcept Exception as e:\n    assert type(e).__name__ == 'Own'", Verdict.PASSED),
        ("def f(x): raise UnicodeDecodeError('utf-8', b'a', 0, 1, 'r')", "try:\n    f(1)\nexcept UnicodeDecodeError:\n    pass", Verdict.PASSED),
        ("def f(x): x.append(1)", "items = [0]\nf(items)\nassert items == [0, 1]", Verdict.PASSED),
        ("def f(x, k=0): return x + k", "assert f(1, k=2) == 3", Verdict.PASSED),
        ("N = 7\ndef g(x): return x\ndef f(x): return g(x) + N", "assert f(1) == g(1) + N", Verdict.PASSED),
        ("import os\nos._exit(0)", CHECK, Verdict.RUNTIME_ERROR),
        ("import os\ndef f(x): os._exit(0)", CHECK, Verdict.RUNTIME_ERROR),
        ("import sys\ndef f(x): sys.exit(0)", CHECK, Verdict.RUNTIME_ERROR),
        ("def f(x):\n    while True: pass", CHECK, Verdict.TIME_LIMIT),
        ("def f(x):\n    import time; time.sleep(60)", CHECK, Verdict.TIME_LIMIT),
        ("def f(x): return bytearray(10**9)", CHECK, Verdict.MEMORY_LIMIT),
        ("def f(x) return", CHECK, Verdict.COMPILE_ERROR),
        ("class E:\n    def __eq__(self, o): return True\ndef f(x): return E()", CHECK, Verdict.FAILED),
        ("class E(int):\n    def __eq__(self, o): return True\ndef f(x): return E(7)", CHECK, Verdict.FAILED),
        ("import os\ndef f(x):\n    os.write(4, b'{\"value\": 2}\\n' * 9)\n    os._exit(0)", CHECK, Verdict.FAILED),
        ("import os\ndef f(x):\n    os.write(4, b'[' * 100000 + b'\\n')\n    return 2", CHECK, Verdict.TAMPERED),
        ("import os\nfor d in range(3, 256):\n    try: os.write(d, b'[\"passed\"]\\n')\n    except OSError: pass\nf = lambda x: 2", CHECK, Verdict.TAMPERED),
        ("f = lambda x: x", "def check(candidate):\n    candidate(lambda: 1)\n", Verdict.RUNTIME_ERROR),
        ("f = lambda x: x", "while True: pass", Verdict.TIME_LIMIT),
        ("f = lambda x: x", "import os\nos._exit(0)", Verdict.RUNTIME_ERROR),
        ("f = lambda x: x", "undefined", Verdict.RUNTIME_ERROR),
        ("g = lambda x: x", CHECK, Verdict.RUNTIME_ERROR),
    ],
)  # fmt: skip
async def test_verdicts_of_check_tests(sandbox: Sandbox, source: str, code: str, verdict: Verdict) -> None:
    calls = "check(f)" in code
    execution = await sandbox.execute(program(source, CheckTest(code, calls_check=calls)))
    assert execution.verdict is verdict, execution
    assert verdicts(execution) in ([verdict is Verdict.PASSED], [])


async def test_the_tests_are_not_in_the_memory_of_the_program(sandbox: Sandbox) -> None:
    """The secret stands in the test code, and in that of the test before, which the same lane may have run."""
    source = """
        import ctypes, re
        def maps():
            return []
        def f(x):
            import gc, sys
            needle = "TESTS-SE" + "CRET"
            hits = [o for o in gc.get_objects() if isinstance(o, dict) for v in list(o.values()) if isinstance(v, str) and needle in v and "needle" not in v]
            # the heap itself, through a pointer that is in it: as far as it can be read
            base = id(object()) & ~0xFFFFF
            data = ctypes.string_at(base, 1 << 18)
            return len(hits) + data.count(needle.encode())
    """
    code = "# TESTS-SECRET " + "y" * 500 + "\nassert f(1) == 0, f(1)\n"
    for _ in range(4):
        execution = await sandbox.execute(program(source, CheckTest(code)))
        assert execution.verdict is Verdict.PASSED, execution


async def test_tests_of_different_kinds_together(sandbox: Sandbox) -> None:
    source = "def f(x):\n    return x + 1\nif __name__ == '__main__':\n    print(f(int(input())))\n"
    tests = (CallTest((1,), 2), StdioTest("3", "4"), CheckTest("assert f(1) == 2"), CallTest((1,), 3))
    execution = await sandbox.execute(program(source, *tests))
    assert verdicts(execution) == [True, True, True, False]
    assert execution.verdict is Verdict.FAILED


async def test_a_lost_lane_is_retried_and_nobody_notices(sandbox: Sandbox) -> None:
    running = asyncio.create_task(
        sandbox.execute(program("import time\ndef f(x):\n    time.sleep(0.3)\n    return 2", CallTest((1,), 2)))
    )
    await asyncio.sleep(0.15)
    for child in psutil.Process().children():
        os.kill(child.pid, signal.SIGKILL)
    assert (await running).verdict is Verdict.PASSED


async def test_cancelling_kills_the_program(executor: ZygoteExecutor) -> None:
    job = CallJob("def f(x):\n    while True: pass", "f", ((1,),), replace(LIMITS, cpu_time=timedelta(seconds=50)))
    running = asyncio.create_task(executor.run(job))
    await asyncio.sleep(0.3)
    busy = _cpu_seconds()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(0.1)
    assert busy > 0.1
    assert _cpu_seconds() < 0.1


def _cpu_seconds() -> float:
    """Of the programs that run now: those of the zygotes' children."""
    programs = [
        child for zygote in psutil.Process().children() for inner in zygote.children() for child in inner.children()
    ]
    return sum(child.cpu_times().user for child in programs)


async def test_a_large_batch_under_way_is_in_order(sandbox: Sandbox) -> None:
    programs = [replace(program(f"f = lambda x: {i % 3}", CallTest((1,), 2)), id=str(i)) for i in range(300)]
    executions = await sandbox.execute_batch(programs)
    assert [execution.program_id for execution in executions] == [str(i) for i in range(300)]
    assert [execution.verdict is Verdict.PASSED for execution in executions] == [i % 3 == 2 for i in range(300)]


async def test_the_report_says_what_it_ran_under(sandbox: Sandbox) -> None:
    execution = await sandbox.execute(program("print(1)"))
    assert {"no-new-privs", "rlimits", "clean-environment"} <= set(execution.isolation.split(","))
    json.dumps(execution.isolation)
