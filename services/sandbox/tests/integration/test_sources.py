"""Source as `python program.py` takes it: marks and line ends, the program's own file, its text in traces."""

import textwrap
from datetime import timedelta

import pytest

from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.program import CallTest, CheckTest, File, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=5), memory_bytes=256 << 20, output_bytes=64 << 10)

SCRIPTS = {
    "byte-order mark": "\ufeffprint(3)",
    "CRLF": "def g():\r\n    return 3\r\nprint(g())\r\n",
    "CR": "a = 3\rprint(a)\r",
    "form feeds": "\x0cdef g():\n    return 3\n\x0c\nprint(g())",
    "no last line break": "print(3)",
    "a coding cookie": "# -*- coding: latin-1 -*-\nprint(len('äöü'))",
    "letters of other alphabets": "größe = 3\nπ = größe\nprint(π)",
    "its arguments": "import sys\nprint(len(sys.argv) + 2 * (sys.argv[0] == 'program.py'))",
    "its names": "import sys\nx: int = 1\nassert __annotations__ == {'x': int} and __spec__ is None is __cached__\n"
    "assert __name__ == '__main__' and sys.modules['__main__'].x == 1\nimport __main__\nprint(__main__.x + 2)",
    "no annotations": "print(len(__annotations__) + 3)",
    "its folder": "import os\nassert os.path.dirname(os.path.abspath(__file__)) == os.getcwd()\nprint(3)",
    "its file": "import sys\nprint(open(__file__).read() == open(sys.argv[0]).read() and 3)",
    "its text": "import inspect\ndef g():\n    return 3\nclass A:\n    b = 1\nassert 'b = 1' in inspect.getsource(A)\n"
    "print(inspect.getsource(g).count('\\n') + 1)",
    "its text elsewhere": "import inspect, os\ndef g(): return 3\nos.makedirs('d'); os.chdir('d')\n"
    "print(inspect.getsource(g)[-2])",
    "a line of a trace": "import traceback\ndef g():\n    raise KeyError  # here\ntry:\n    g()\nexcept KeyError:\n"
    "    print(3 if 'raise KeyError  # here' in traceback.format_exc() else 4)",
    "a line by its number": "import linecache\nX = 3\nprint(linecache.getline(__file__, 2)[-2])",
    "a module that it writes": "open('m.py', 'w').write('x = 3')\nimport m\nprint(m.x)",
    "dataclasses": "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n"
    "    b: int = 3\nimport typing\nassert typing.get_type_hints(A) == {'b': int}\nprint(A().b)",
    "pickles of its own": "import pickle\nclass A:\n    x = 3\nprint(pickle.loads(pickle.dumps(A())).x)",
    "doctests": "import doctest\ndef g():\n    '''\n    >>> g()\n    3\n    '''\n    return 3\n"
    "assert doctest.testmod().attempted == 1\nprint(3)",
    "tests of its own": "import unittest\nclass T(unittest.TestCase):\n    def test(self): print(3)\nunittest.main()",
    "a word that a file would be for": "s = 'argv'\nprint(3)",
}


@pytest.mark.parametrize("source", SCRIPTS.values(), ids=SCRIPTS)
async def test_a_script_runs_as_its_file_would(sandbox: Sandbox, source: str) -> None:
    execution = await sandbox.execute(Program("p", source, tests=(StdioTest("", "3"),), limits=LIMITS))
    assert execution.verdict is Verdict.PASSED, execution


@pytest.mark.parametrize("test", [CallTest((1,), 2), CheckTest("assert f(1) == 2")], ids=["call", "check"])
async def test_a_function_of_such_source(sandbox: Sandbox, test: CallTest | CheckTest) -> None:
    source = """\
        import inspect, os, traceback
        def f(x):
            assert os.path.exists(__file__) and "return x + 1" in inspect.getsource(f)
            try:
                1 / 0  # here
            except ZeroDivisionError:
                assert "# here" in traceback.format_exc()
            return x + 1
        """
    program = Program("p", "\ufeff" + textwrap.dedent(source), "f", (test,), limits=LIMITS)
    assert (await sandbox.execute(program)).verdict is Verdict.PASSED


async def test_a_trace_has_the_lines_of_the_program(sandbox: Sandbox) -> None:
    execution = await sandbox.execute(Program("p", "def g():\n    return 1 / 0  # here\ng()\n", limits=LIMITS))
    assert "    return 1 / 0  # here\n" in execution.stderr
    assert "cage" not in execution.stderr
    assert "runner" not in execution.stderr


async def test_a_trace_may_be_the_programs_own(sandbox: Sandbox) -> None:
    source = "import sys\nsys.excepthook = lambda kind, error, trace: print('sorry:', error)\nraise ValueError('why')\n"
    execution = await sandbox.execute(Program("p", source, limits=LIMITS))
    assert (execution.verdict, execution.stdout) == (Verdict.RUNTIME_ERROR, "sorry: why\n")


@pytest.mark.parametrize(
    ("left", "status"), [("0", 0), ("None", 0), ("3", 3), ("-1", 255), ("'no'", 1), ("True", 1), ("256", 0)]
)
async def test_exit_statuses(sandbox: Sandbox, left: str, status: int) -> None:
    execution = await sandbox.execute(Program("p", f"import sys\nsys.exit({left})", limits=LIMITS))
    assert execution.exit_status == status


async def test_a_file_that_came_with_the_program_stays_its_own(sandbox: Sandbox) -> None:
    source = "print(open('program.py').read())"
    execution = await sandbox.execute(Program("p", source, limits=LIMITS, files=(File("program.py", b"mine"),)))
    assert execution.stdout == "mine\n"


async def test_tests_import_nothing_that_the_program_left(sandbox: Sandbox) -> None:
    source = "for name in ('fractions', 'unittest'):\n    open(name + '.py', 'w').write('raise SystemExit')\n"
    tests = (CheckTest("import fractions, unittest\nassert f(1) == fractions.Fraction(4, 2)"),)
    program = Program("p", source + "def f(x): return x + 1\n", "f", tests, limits=LIMITS)
    assert (await sandbox.execute(program)).verdict is Verdict.PASSED


async def test_what_python_does_not_take(sandbox: Sandbox) -> None:
    for source in ("print(3)\n\x1a", "print('\0')", "def f(:"):
        assert (await sandbox.execute(Program("p", source, limits=LIMITS))).verdict is Verdict.COMPILE_ERROR
