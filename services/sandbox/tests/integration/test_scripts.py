"""Programs as scripts, with and without expected output, in the real cage."""

import textwrap
from datetime import timedelta

import pytest

from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest, Test
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20, output_bytes=64 << 10)


def program(source: str, *tests: Test, stdin: str = "") -> Program:
    return Program("p", textwrap.dedent(source), "f", tests, stdin, LIMITS)


def passed(execution: Execution) -> list[bool]:
    return [result.passed for result in execution.results]


async def test_scripts(sandbox: Sandbox) -> None:
    source = "n = int(input())\nprint(sum(int(input()) for _ in range(n)))\n"
    tests = [StdioTest("2\n1\n2\n", "3"), StdioTest("1\n5", " 5 \n\n"), StdioTest("1\n5", "6"), StdioTest("", "0")]
    execution = await sandbox.execute(program(source, *tests))
    assert execution.verdict is Verdict.FAILED
    assert passed(execution) == [True, True, False, False]
    assert (execution.results[2].got, execution.results[2].expected) == ("5\n", "6")
    assert "EOFError" in execution.results[3].error


NINES = "9" * 100_000


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("print(10**5000)", StdioTest("", "1" + "0" * 5000)),
        ("print(int(input()) % 7)", StdioTest("9" * 10_000, "3")),
        ("print(int(input()) + int(input()))", StdioTest(f"{NINES}\n1\n", "1" + "0" * 100_000)),
        (f"print({'9' * 5000} % 7)", StdioTest("", str((10**5000 - 1) % 7))),
        ("def f():\n    return 10**5000", CallTest((), 10**5000)),
        ("def f(x):\n    return len(str(x))", CallTest((10**5000,), 5001)),
    ],
    ids=["printed", "read", "added", "in the source", "returned", "taken"],
)
async def test_integers_of_many_digits(sandbox: Sandbox, source: str, test: Test) -> None:
    execution = await sandbox.execute(program(source, test))
    assert execution.verdict is Verdict.PASSED, execution.detail


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


async def test_nothing_of_the_cage_is_within_reach_of_an_import(sandbox: Sandbox) -> None:
    source = """\
        import importlib.util, sys
        assert not [name for name in sys.modules if "sandbox_service" in name]
        assert not [path for path in (*sys.path, *sys.path_importer_cache) if "cage" in path]
        assert not any(map(importlib.util.find_spec, ("sandbox_service", "cage", "wire", "files", "runner")))
        import pytest
        for ours in (sys.setrecursionlimit, pytest.raises, pytest.ExceptionInfo, pytest.ExceptionInfo.match):
            assert "sandbox_service" not in ours.__module__
        print(3)
        """
    execution = await sandbox.execute(program(textwrap.dedent(source)))
    assert (execution.verdict, execution.stdout) == (Verdict.PASSED, "3\n"), execution


async def test_tests_of_different_kinds_together(sandbox: Sandbox) -> None:
    source = "def f(x):\n    return x + 1\nif __name__ == '__main__':\n    print(f(int(input())))\n"
    tests = (CallTest((1,), 2), StdioTest("3", "4"), CheckTest("assert f(1) == 2"), CallTest((1,), 3))
    execution = await sandbox.execute(program(source, *tests))
    assert passed(execution) == [True, True, True, False]
    assert execution.verdict is Verdict.FAILED
