"""Opaque test code in a process of its own, in the real cage."""

import textwrap
from datetime import timedelta

import pytest

from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CheckTest, Limits, Program, Test
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
            "try:\n    f(1)\nexcept UnicodeDecodeError:\n    pass",
            Verdict.PASSED,
        ),
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
        ("import os\ndef f(x):\n    os.write(4, b'{\"value\": 2}\\n' * 9)\n    return 2", CHECK, Verdict.FAILED),
        ("import os\ndef f(x):\n    os.write(4, b'[' * 100000 + b'\\n')\n    return 2", CHECK, Verdict.TAMPERED),
        (WRITES_EVERYWHERE, CHECK, Verdict.TAMPERED),
        ("f = lambda x: x", "def check(candidate):\n    candidate(lambda: 1)\n", Verdict.RUNTIME_ERROR),
        ("f = lambda x: x", "while True: pass", Verdict.TIME_LIMIT),
        ("f = lambda x: x", "import os\nos._exit(0)", Verdict.RUNTIME_ERROR),
        ("f = lambda x: x", "undefined", Verdict.RUNTIME_ERROR),
        ("import sys\nf = lambda x: x", "assert f(1) < sys.maxsize", Verdict.PASSED),
        ("def check(f): raise ValueError\nf = lambda x: 2", "assert f(1) == 2", Verdict.PASSED),
        ("def f(x): return 2\nsum = f", "assert sum([1]) == 1", Verdict.PASSED),
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
