"""Wherever the service touches what a program chose, others wait no longer than in proportion to its size.

Measured is the processor time that the event loop spends in one go: other callers wait that long. It does not depend on
how busy the machine is. What is four times as large may hold the loop about four times as long, and not sixteen times.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import psutil
import pytest
import pytest_asyncio

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from sandbox_service.adapters.aside.process import AsideProcess
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.convert import Bounds, programs_from_proto
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.grading import Outcome, judged_whole
from sandbox_service.domain.jobs import End, Report, Stage
from sandbox_service.domain.ports import Overrun
from sandbox_service.domain.program import CallTest, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.unpacking import Unpacker

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

LIMITS = Limits(timedelta(seconds=5), 512 << 20, 1 << 20)
COLLIDING = """
import os, sys
def f(x):
    frames = sys._getframe(1).f_locals["frames"]
    ints = ",".join(str((2 ** 61 - 1) * k) for k in range(1, x))
    os.write(3, (frames._start + 'value", 0, {"s": [' + ints + "]}]\\n").encode())
    os._exit(0)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def apart(executor: LanePool) -> AsyncIterator[Sandbox]:
    async with AsideProcess() as aside:
        yield Sandbox(executor, queue_limit=1000, aside=aside)


def answer(source: str, expected: object) -> Callable[[int], Program]:
    return lambda size: Program("p", source, "f", (CallTest((size,), expected),), limits=LIMITS)


def printed(source: str, expected: str = "x") -> Callable[[int], Program]:
    return lambda size: Program("p", f"n = {size}\n{source}", tests=(StdioTest("", expected),), limits=LIMITS)


def source(make: Callable[[int], str], language: str = "python") -> Callable[[int], Program]:
    return lambda size: Program("p", make(size), tests=(StdioTest("", "x"),), limits=LIMITS, language=language)


def halves(size: int) -> Program:
    test = CallTest((size,), [i * 0.5 for i in range(size)])
    return Program("p", "def f(n): return [i * 0.5 for i in range(n)]", "f", (test,), limits=LIMITS)


def raising(size: int) -> Program:
    tests = tuple(CallTest((i,), 1) for i in range(size))
    return Program("p", "def f(x): raise ValueError('x' * 900)", "f", tests, limits=LIMITS)


CASES: dict[str, tuple[Callable[[int], Program], int]] = {
    "integers of one hash": (answer(COLLIDING, {1}), 10_000),
    "a long list": (answer("def f(n): return list(range(n))", [1]), 40_000),
    "a list as long as expected": (halves, 20_000),
    "empty lists": (answer("def f(n): return [[] for _ in range(n)]", [1]), 100_000),
    "deep lists": (answer("def f(n):\n  x = []\n  for _ in range(90): x = [x, x[:0]]\n  return [x] * n", [1]), 200),
    "a dict": (answer("def f(n): return {i: str(i) for i in range(n)}", {1: 2}), 20_000),
    "a set of tuples": (answer("def f(n): return {(i, i * 0.1) for i in range(n)}", {(1, 0.1)}), 10_000),
    "a text": (answer("def f(n): return 'x' * n", "x"), 900_000),
    "a huge integer": (answer("def f(n): return 1 << n", 1), 900_000),
    "many exceptions": (raising, 240),
    "printed words": (printed("print('a ' * n)", "a " * 100), 120_000),
    "printed bytes that are no text": (printed("import os\nos.write(1, b'\\xff' * n)"), 200_000),
    "errors printed": (printed("import sys\nprint('a ' * n, file=sys.stderr)"), 120_000),
    "bytes on the result channel": (printed("import os\nos.write(3, b'[\\n' * n)"), 10_000),
    "one long line on the result channel": (printed("import os\nos.write(3, b'[' * n + b'\\n')"), 30_000),
    "files left": (printed("for i in range(n): open(f'{i}', 'w')"), 900),
    "folders left": (printed("import os\nfor i in range(n): os.mkdir(f'{i}')"), 900),
    "imports": (source(lambda n: "import numpi, os\n" * n), 3_000),
    "imports in a small source": (source(lambda n: "import numpi, os\n" * n), 200),
    "quotes": (source(lambda n: "import numpi\n" + "'" * n), 15_000),
    "blanks": (source(lambda n: "import numpi" + " " * n), 15_000),
    "brackets": (source(lambda n: "import numpi\n" + "(" * n), 15_000),
    "commas": (source(lambda n: "import numpi" + ", a" * n), 5_000),
    "empty lines of Java": (source(lambda n: "\n" * n + "class Main {}", "java"), 16_000),
    "braces of Java": (source(lambda n: "class A{" * n, "java"), 2_000),
    "comments of Java": (source(lambda n: "/*" * n, "java"), 10_000),
}


@contextlib.asynccontextmanager
async def holding() -> AsyncIterator[Callable[[], float]]:
    """The most processor seconds that the loop's thread spent at a time."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    watching = asyncio.create_task(watch())
    try:
        yield lambda: longest
    finally:
        watching.cancel()


async def held(sandbox: Sandbox, program: Program) -> tuple[float, Execution]:
    """The least of two: what else the process does now and then is none of the program's."""
    least = 1e9
    for _ in range(2):
        async with holding() as longest:
            execution = await sandbox.execute(program)
            await asyncio.sleep(0.001)
        least = min(least, longest())
    return least, execution


@pytest.mark.parametrize("name", CASES)
async def test_others_wait_in_proportion_to_its_size(apart: Sandbox, name: str) -> None:
    make, size = CASES[name]
    language = make(1).language
    if language != "python" and not apart.capabilities.processes:
        pytest.skip("other languages can't run here")
    if language in apart.capabilities.missing_languages:
        pytest.skip(f"there is no {language} here")
    short, _ = await held(apart, make(size))
    long, execution = await held(apart, make(4 * size))
    assert execution.verdict is not Verdict.PASSED or "as expected" in name
    print(f"{name}: {1000 * short:.1f} ms, then {1000 * long:.1f} ms")
    assert long < 8 * short + 0.01


REPORT = Report(End.EXITED, 0, Stage.LOADED, timedelta(), timedelta(), ())


def _endless(report: Report) -> Outcome:
    while True:
        pass


def _greedy(report: Report) -> Outcome:
    return Outcome(Verdict.PASSED, detail=str(len(bytearray(1 << 31))))


def _broken(report: Report) -> Outcome:
    raise ZeroDivisionError("a bug")


def _slow(report: Report) -> Outcome:
    time.sleep(0.5)
    return Outcome(Verdict.PASSED)


def _right(report: Report) -> Outcome:
    return Outcome(Verdict.PASSED)


async def test_what_takes_too_much_to_judge_ends_alone() -> None:
    async with AsideProcess(cpu_seconds=5) as aside:  # of which each takes one to import this file
        ends = await asyncio.gather(
            *(aside(judged_whole, REPORT, one) for one in (_endless, _right, _greedy, _right, _broken, _right)),
            return_exceptions=True,
        )
        assert [type(end) for end in ends[::2]] == [Overrun, Overrun, RuntimeError]
        assert ends[1::2] == [(REPORT, Outcome(Verdict.PASSED))] * 3


async def test_a_piece_of_work_that_is_killed_is_done_again() -> None:
    async with AsideProcess() as aside:
        assert await aside(judged_whole, REPORT, _right) == (REPORT, Outcome(Verdict.PASSED))
        assert aside._process is not None
        judge = psutil.Process(aside._process.pid)
        while judge.children():  # the first piece's, which has answered and ends
            await asyncio.sleep(0.02)
        doing = asyncio.create_task(aside(judged_whole, REPORT, _slow))
        while not (working := judge.children()):
            await asyncio.sleep(0.02)
        working[0].kill()
        assert await doing == (REPORT, Outcome(Verdict.PASSED))


async def test_long_test_code_holds_up_nobody() -> None:
    code = "def check(candidate):\n" + "    assert candidate(1) == 1\n" * 35_000
    test = problem_pb2.Test(check=problem_pb2.CheckTest(code=code))
    request = pb.Program(source="f = abs", entry_point="f", tests=[test])
    bounds = Bounds(Limits(), 1 << 20)
    async with AsideProcess() as aside:
        unpack = Unpacker(aside)
        async with holding() as longest:
            (program,) = await unpack(request.ByteSize(), programs_from_proto, [request], bounds)
        assert len(program.tests) == 1
        assert longest() < 0.2


async def test_a_judge_that_was_killed_is_started_again() -> None:
    async with AsideProcess() as aside:
        for _ in range(3):
            assert await aside(judged_whole, REPORT, _right) == (REPORT, Outcome(Verdict.PASSED))
            assert aside._process is not None
            aside._process.kill()
            await aside._process.wait()


async def test_an_overrun_is_the_programs_own_verdict(executor: LanePool) -> None:
    async with AsideProcess(cpu_seconds=1, memory_bytes=1 << 20) as aside:
        sandbox = Sandbox(executor, queue_limit=100, aside=aside)
        small, large = (
            Program("s", "f = abs", "f", (CallTest((1,), 1),)),
            answer("def f(n): return [[]] * n", [1])(99_999),
        )
        executions = await sandbox.execute_batch([small, large, small])
    assert [one.verdict for one in executions] == [Verdict.PASSED, Verdict.OUTPUT_LIMIT, Verdict.PASSED]
    assert executions[1].detail == "its answers took too long to judge, or too much memory"
