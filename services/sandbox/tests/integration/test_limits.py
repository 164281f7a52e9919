"""What counts against a program's limits, and what doesn't."""

import textwrap
from datetime import timedelta

import pytest

from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest, Test
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20, output_bytes=64 << 10)
TESTS = (CallTest((1,), 2),)


async def run(sandbox: Sandbox, source: str, *tests: Test, limits: Limits = LIMITS, **more: object) -> Execution:
    program = Program("p", textwrap.dedent(source), "f", tests or TESTS, limits=limits, **more)  # type: ignore[arg-type]
    return await sandbox.execute(program)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("test", [CallTest((1,), 2), CheckTest("assert f(1) == 2")], ids=["call", "check"])
async def test_output_that_nobody_judges_is_cut(sandbox: Sandbox, test: Test, stream: str) -> None:
    source = f"import sys\ndef f(x):\n    sys.{stream}.write('debug ' * 70_000)\n    return x + 1\n"
    execution = await run(sandbox, source, test)
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.output_cut
    assert getattr(execution, stream) == ("debug " * 70_000)[: 64 << 10]


async def test_output_within_its_limit_is_whole(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "def f(x):\n    print('x' * 60_000)\n    return x + 1\n")
    assert execution.verdict is Verdict.PASSED
    assert not execution.output_cut


async def test_of_a_script_stdout_is_judged_and_stderr_is_not(sandbox: Sandbox) -> None:
    loud = "import sys\nprint('d' * 200_000, file=sys.{})\nprint(2)\n"
    execution = await run(sandbox, loud.format("stderr"), StdioTest("", "2"))
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.output_cut
    execution = await run(sandbox, loud.format("stdout"), StdioTest("", "2"))
    assert execution.verdict is Verdict.OUTPUT_LIMIT


async def test_answers_count_one_by_one(sandbox: Sandbox) -> None:
    tests = [CallTest((n,), list(range(n, n + 6000))) for n in range(1000, 1040)]
    execution = await run(sandbox, "def f(n): return list(range(n, n + 6000))", *tests)
    assert execution.verdict is Verdict.PASSED, execution.detail


async def test_an_answer_beyond_its_limit_is_that_tests_fault_alone(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "def f(n): return 'x' * n", *(CallTest((n,), "x" * n) for n in (3, 5_000_000, 4)))
    assert execution.verdict is Verdict.OUTPUT_LIMIT
    assert [result.passed for result in execution.results] == [True, False, True]
    assert execution.results[1].error == "answered with more than 4096 KiB"


async def test_answers_together_have_a_limit_too(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "def f(n): return 'x' * 4_000_000", *(CallTest((n,), 2) for n in range(10)))
    assert execution.verdict is Verdict.FAILED  # as the first answer was wrong
    assert "its answers together" in execution.results[-1].error
