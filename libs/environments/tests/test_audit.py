"""The weakness of tests: cheats that pass them, mutants that survive."""

from collections.abc import Sequence

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.audit import Audited, audit_all
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.task import Task
from ratchet_problems import CheckTest, Problem

STRONG = "assert repr(f(1, 2)) == '3'\nassert repr(f(2, 2)) == '4'"
WEAK = "assert f(1, 2) == 3"
LOOSE = "assert f(1, 2) is not None\nassert f(1, 2) != 'x'"


class Node:
    """Runs what this file wrote."""

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        return [pb.ExecutionItem(execution=_executed(program)) for program in programs]


def _executed(program: pb.Program) -> pb.Execution:
    scope: dict[str, object] = {}
    try:
        exec(program.source, scope)
        exec(program.tests[0].check.code, scope)
    except (AssertionError, TypeError, IndexError, NameError) as error:
        return pb.Execution(verdict=verdict_pb2.VERDICT_FAILED, detail=str(error))
    return pb.Execution(verdict=verdict_pb2.VERDICT_PASSED)


async def found(*checks: str, reference: str = "def f(a, b):\n    return a + b\n") -> list[Audited]:
    problems = [
        Problem(f"p{place}", "Add two.", (CheckTest(check),), "f", (reference,)) for place, check in enumerate(checks)
    ]
    told: list[tuple[int, int]] = []
    async with Executor(Node()) as executor:
        environment = CodeEnvironment(executor, forgeable=True)
        audited = await audit_all(
            environment, [Task.of(one) for one in problems], tell=lambda *counts: told.append(counts)
        )
    assert told[-1] == (len(checks), len(checks))
    return audited


async def test_weak_tests_are_told_from_strong_ones() -> None:
    strong, weak, loose = await found(STRONG, WEAK, LOOSE)
    assert (strong.weakness, strong.mutants, strong.survivors) == (0.0, 2, [])
    assert weak.weakness == 1.0
    assert "always 3" in weak.cheats
    assert loose.weakness == 1.0
    assert "always 0" in loose.cheats
    assert loose.survivors == ["line 2: a + b -> a - b"]


async def test_an_object_that_equals_everything_passes_what_compares_by_its_own_rule() -> None:
    (one,) = await found("assert f(1, 2) == 3\nassert f(2, 2) == 4")
    assert one.cheats == ["an object that equals everything"]


async def test_nothing_is_said_of_a_reference_that_fails() -> None:
    (one,) = await found("assert f(1, 2) == 5")
    assert (one.weakness, one.mutants) == (0.0, 0)
    assert one.fault.startswith("tests[0]: its reference does not pass")
