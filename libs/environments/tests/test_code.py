"""A verdict is about the program, an error about the platform."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from google.rpc import code_pb2

from ratchet.common.v1 import failure_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments import Outcome, Task, judge
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.failures import FailedTest
from ratchet_kit.errors import FieldViolation, InvalidArgument, Unavailable
from ratchet_problems import CallTest, CheckTest, Message, Problem, StdioTest
from ratchet_rewards import Grade

TASK = Task.of(Problem("p", "Write f.", (CallTest("[1]", "2"),) * 4, entry_point="f"))


class ScriptedSandbox:
    """Gives every program the same execution, or fails."""

    def __init__(self, execution: pb.Execution | None) -> None:
        self._execution = execution
        self.programs: list[pb.Program] = []

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        self.programs += programs
        if self._execution is None:
            raise Unavailable("no sandbox")
        return [pb.ExecutionItem(execution=self._execution) for _ in programs]


def seen(verdict: verdict_pb2.Verdict.ValueType, passed: int) -> ScriptedSandbox:
    return ScriptedSandbox(pb.Execution(verdict=verdict, tests_passed=passed, tests_total=4, detail="test 4: got 3"))


async def test_a_task_is_the_prompt_as_the_user() -> None:
    assert TASK.messages == (Message("user", "Write f."),)
    assert TASK.conversation == [{"role": "user", "content": "Write f."}]


async def test_an_answer_to_a_problem_without_tests_is_not_run() -> None:
    sandbox = seen(verdict_pb2.VERDICT_PASSED, 0)
    async with Executor(sandbox) as executor:
        outcome = await judge(CodeEnvironment(executor), Task.of(Problem("s", "2 + 2?", (), references=("4",))), "4")
    assert (outcome.grade.verdict, outcome.grade.passed, sandbox.programs) == ("UNTESTED", False, [])


async def test_an_answer_becomes_a_program_and_a_grade() -> None:
    sandbox = seen(verdict_pb2.VERDICT_FAILED, 3)
    async with Executor(sandbox) as executor:
        environment = CodeEnvironment(executor)
        episode = await environment.step(await environment.start(TASK), "```python\ndef f(x): return 3\n```")
    assert episode.outcome == Outcome(Grade("FAILED", 3, 4, "test 4: got 3"))
    assert [program.source for program in sandbox.programs] == ["def f(x): return 3\n"]


@pytest.mark.parametrize(
    ("result", "detail"),
    [
        (pb.TestResult(got="3", expected="2"), "gave 3, not 2"),
        (pb.TestResult(got="(1, 2)", expected="[1, 2]"), "gave (1, 2), not [1, 2] (a tuple, where a list is expected)"),
        (pb.TestResult(got="(1,)", expected="[1]"), "gave (1,), not [1] (a tuple, where a list is expected)"),
        (pb.TestResult(got="", expected="1\n2\n"), "gave nothing, not 1 2"),
        (pb.TestResult(got="x" * 999, expected="y"), f"gave {'x' * 197}..., not y"),
        (pb.TestResult(held_out=True), ""),
    ],
)
async def test_what_came_back_is_said(result: pb.TestResult, detail: str) -> None:
    results = [pb.TestResult(passed=True, got="1", expected="1"), result, pb.TestResult(got="4", expected="5")]
    sandbox = ScriptedSandbox(pb.Execution(verdict=verdict_pb2.VERDICT_FAILED, results=results))
    async with Executor(sandbox) as executor:
        assert (await judge(CodeEnvironment(executor), TASK, "x")).grade.detail == detail


async def test_failed_tests_are_kept_for_people_and_held_out_ones_are_counted() -> None:
    tests = (
        CallTest("[1]", "2"),
        CallTest("[2]", "4"),
        CallTest("[3]", raises="ValueError"),
        CallTest("[99]", "198", held_out=True),
        StdioTest("5\n", "x" * 999),
    )
    results = [
        pb.TestResult(passed=True, got="2", expected="2"),
        pb.TestResult(got="3", expected="4"),
        pb.TestResult(error="TypeError: 3"),
        pb.TestResult(held_out=True),
        pb.TestResult(got="y" * 999),
    ]
    execution = pb.Execution(verdict=verdict_pb2.VERDICT_FAILED, results=results, stderr="o" * 5000 + "the end")
    task = Task.of(Problem("p", "Write f.", tests, entry_point="f"))
    async with Executor(ScriptedSandbox(execution)) as executor:
        environment = CodeEnvironment(executor)
        episode = await environment.step(await environment.start(task), "def f(x): return 3")
    [turn] = episode.turns
    assert turn.failures.tests == (
        FailedTest("f(2)", "4", "3"),
        FailedTest("f(3)", "ValueError", error="TypeError: 3"),
        FailedTest("5\n", "x" * 497 + "...", "y" * 497 + "..."),
    )
    assert turn.failures.held_out == 1
    assert "99" not in str(turn.failures)
    assert (len(turn.failures.stderr), turn.failures.stderr[-7:]) == (4000, "the end")


@pytest.mark.parametrize("held_out", [False, True])
async def test_a_compiler_quotes_no_test_that_is_held_out(held_out: bool) -> None:
    execution = pb.Execution(
        verdict=verdict_pb2.VERDICT_COMPILE_ERROR,
        results=[pb.TestResult(held_out=held_out)],
        compile_output="assert(f(99) == 198): no such f",
    )
    task = Task.of(Problem("p", "Write f.", (CheckTest("assert f(99) == 198", held_out),), entry_point="f"))
    async with Executor(ScriptedSandbox(execution)) as executor:
        environment = CodeEnvironment(executor)
        episode = await environment.step(await environment.start(task), "int g;")
    assert (episode.turns[0].failures.stderr == "") == held_out


async def test_only_a_program_that_passes_has_passed() -> None:
    async with Executor(seen(verdict_pb2.VERDICT_FAILED, 3)) as executor:
        assert not (await judge(CodeEnvironment(executor), TASK, "f = 1")).grade.passed
    async with Executor(seen(verdict_pb2.VERDICT_PASSED, 4)) as executor:
        assert (await judge(CodeEnvironment(executor), TASK, "f = 1")).grade.passed


@pytest.mark.parametrize(("field", "own"), [("programs[0].source", True), ("programs[0].tests[0].call.args", False)])
async def test_an_answer_that_the_sandbox_refuses_is_wrong_and_a_refused_problem_an_error(
    field: str, own: bool
) -> None:
    class Refusing:
        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            raise InvalidArgument("at fault", [FieldViolation(field, "is longer than 1048576 bytes")])

    async with Executor(Refusing()) as executor:
        if own:
            outcome = await judge(CodeEnvironment(executor), TASK, "x = '\ud800'")
            assert (outcome.grade.verdict, outcome.grade.passed) == ("COMPILE_ERROR", False)
        else:
            with pytest.raises(InvalidArgument):
                await judge(CodeEnvironment(executor), TASK, "x = 1")


async def test_a_fault_of_the_platform_is_no_outcome() -> None:
    async with Executor(ScriptedSandbox(None), attempts=2, backoff=timedelta()) as executor:
        with pytest.raises(Unavailable, match="2 times: no sandbox"):
            await judge(CodeEnvironment(executor), TASK, "f = 1")


async def test_tests_that_can_judge_no_program_are_the_problems_fault_and_no_grade() -> None:
    failure = failure_pb2.Failure(code=code_pb2.INVALID_ARGUMENT, message="the test code never called the program")
    async with Executor(ScriptedSandbox(pb.Execution(id="p", failure=failure))) as executor:
        with pytest.raises(InvalidArgument, match=r"p: its tests can judge no program: .* never called"):
            await judge(CodeEnvironment(executor), TASK, "f = 1")


async def test_a_grade_that_can_be_forged_is_given_where_it_is_asked_for_by_name() -> None:
    task = Task.of(Problem("p", "Write f.", (CheckTest("assert f(1) is None", shared=True),), entry_point="f"))
    passed = pb.Execution(verdict=verdict_pb2.VERDICT_PASSED, tests_passed=1, tests_total=1, forgeable=True)
    async with Executor(ScriptedSandbox(passed)) as executor:
        with pytest.raises(InvalidArgument, match="p: its tests share the program's process"):
            await judge(CodeEnvironment(executor), task, "f = 1")
        outcome = await judge(CodeEnvironment(executor, forgeable=True), task, "f = 1")
    assert outcome == Outcome(Grade("PASSED", 1, 1, forgeable=True))
