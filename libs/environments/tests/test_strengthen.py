"""Tests that kill the mutants which a problem's own tests let live."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.executor import Executor
from ratchet_environments.strengthen import Strengthened, strengthen_all
from ratchet_environments.task import Task
from ratchet_kit import syntax
from ratchet_problems import CallTest, Problem, StdioTest

REFERENCE = (
    "def clamp(x, most):\n    if x > most:\n        return most\n    if x < 0:\n        return 0\n    return x\n"
)


class Node:
    """Runs what this file wrote."""

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        return [pb.ExecutionItem(execution=_executed(program)) for program in programs]


def _executed(program: pb.Program) -> pb.Execution:
    scope: dict[str, object] = {}
    with TemporaryDirectory() as folder:
        made = Path(folder, "answers.json")
        exec(program.source.replace("'answers.json'", repr(str(made))), scope)
        files = [pb.File(name="answers.json", content=made.read_bytes())] if made.exists() else []
    function = scope[program.entry_point] if program.entry_point else None
    results = []
    for test in program.tests:
        assert callable(function)
        given, expected = syntax.value(test.call.args), syntax.value(test.call.expected)
        assert isinstance(given, list)
        try:
            value = function(*given)
        except Exception as error:  # noqa: BLE001  of a program
            value = error
        results.append(pb.TestResult(passed=type(value) is type(expected) and value == expected))
    passed = all(result.passed for result in results)
    verdict = verdict_pb2.VERDICT_PASSED if passed else verdict_pb2.VERDICT_FAILED
    return pb.Execution(verdict=verdict, results=results, files=files)


async def strengthened(*problems: Problem) -> list[Strengthened]:
    async with Executor(Node()) as executor:
        return await strengthen_all(executor, [Task.of(problem) for problem in problems])


async def test_surviving_mutants_are_killed_by_few_tests_that_the_reference_passes() -> None:
    weak = Problem("p", "Clamp x.", (CallTest("[1, 5]", "1"), CallTest("[-7, 5]", "0")), "clamp", (REFERENCE,))
    (found,) = await strengthened(weak)
    assert found.fault == ""
    assert found.killed < found.killed_now <= found.mutants
    added = found.problem.tests[2:]
    assert 1 <= len(added) <= 10
    for test in added:
        assert isinstance(test, CallTest)
        x, most = json.loads(test.args)
        assert json.loads(test.expected) == (most if x > most else max(x, 0))


async def test_a_problem_that_shows_no_calls_stays_as_it_is() -> None:
    printed = Problem("p", "Print.", (StdioTest("", "1"),), references=("print(1)",))
    (found,) = await strengthened(printed)
    assert (found.problem, found.fault) == (printed, "its tests show no arguments of calls")
