"""A problem's reference is tried in the strict kind, and in the shared one only where it must."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from google.rpc import code_pb2

from ratchet.common.v1 import failure_pb2, problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.preflight import KINDS, Preflight, in_kinds, preflight_all
from ratchet_environments.sandbox import Sandbox
from ratchet_environments.task import Limits, Task
from ratchet_kit.times import duration_to_proto
from ratchet_problems import CallTest, CheckTest, Problem

APART, BESIDE, NEVER = CheckTest("assert f(1) == 2"), CheckTest("assert f(1).pop() == 2"), CheckTest("assert f(1) == 3")
NOTHING = CheckTest("for x in []:\n    assert f(x)")


class Node:
    """Passes tests that need nothing, and those that need to share where they do."""

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        return [pb.ExecutionItem(execution=_executed(program)) for program in programs]


def _executed(program: pb.Program) -> pb.Execution:
    found = [_execution(test) for test in program.tests]
    return next((one for one in found if one.verdict != verdict_pb2.VERDICT_PASSED), found[0])


def _execution(test: problem_pb2.Test) -> pb.Execution:
    if test.check.code == NOTHING.code:
        failure = failure_pb2.Failure(code=code_pb2.INVALID_ARGUMENT, message="never called the program")
        return pb.Execution(failure=failure)
    shared = test.check.grading == problem_pb2.CheckTest.GRADING_SHARED
    if test.check.code == NEVER.code or (test.check.code == BESIDE.code and not shared):
        return pb.Execution(verdict=verdict_pb2.VERDICT_RUNTIME_ERROR, detail="a method of an object of the program")
    return pb.Execution(verdict=verdict_pb2.VERDICT_PASSED, cpu_time=duration_to_proto(timedelta(seconds=2)))


def problem(*tests: CallTest | CheckTest, references: tuple[str, ...] = ("f = 1",)) -> Problem:
    return Problem("p", "Write f.", tests, entry_point="f", references=references)


async def found(
    *problems: Problem,
    node: Sandbox | None = None,
    limits: Limits = Limits(),
    tell: Callable[[int, Preflight], None] = lambda place, found: None,
) -> list[Preflight]:
    async with Executor(node or Node()) as executor:
        tasks = [Task.of(one, limits=limits) for one in problems]
        return await preflight_all(CodeEnvironment(executor, forgeable=True), tasks, tell=tell)


async def test_what_passes_apart_stays_apart() -> None:
    (one,) = await found(problem(CallTest("[1]", "2"), APART))
    assert one == Preflight(problem(CallTest("[1]", "2"), APART), cpu_time=timedelta(seconds=2))


async def test_what_must_shares_the_process_and_says_why() -> None:
    (one,) = await found(problem(APART, BESIDE))
    assert [test.shared for test in one.problem.tests if isinstance(test, CheckTest)] == [False, True]
    why = "RUNTIME_ERROR a method of an object of the program"
    assert one.shared == {1: why}
    assert not one.fault


async def test_how_each_is_judged_is_told() -> None:
    class Values(Node):
        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            items = await super().execute_batch(programs)
            for item, program in zip(items, programs, strict=True):
                item.execution.results.extend(pb.TestResult(by_values=one.HasField("call")) for one in program.tests)
            return items

    call = CallTest("[1]", "2")
    judged = await found(problem(call), problem(call, APART), problem(BESIDE), problem(NEVER), node=Values())
    assert [one.kind for one in judged] == list(KINDS)


async def test_what_says_that_it_shares_does() -> None:
    shares = problem(replace(APART, shared=True), BESIDE)
    (one,) = await found(shares)
    assert one.problem == in_kinds(shares, [0, 1])
    assert list(one.shared) == [0, 1]


async def test_what_was_only_slow_among_others_passes_alone() -> None:
    class Busy(Node):
        calls = 0

        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            self.calls += 1
            if self.calls > 1:
                return await super().execute_batch(programs)
            return [pb.ExecutionItem(execution=pb.Execution(verdict=verdict_pb2.VERDICT_TIME_LIMIT))]

    assert [one.fault for one in await found(problem(APART), node=Busy())] == [""]


def test_a_problem_in_its_kinds() -> None:
    one = problem(CallTest("[1]", "2"), APART, replace(BESIDE, shared=True))
    assert in_kinds(one, [2]) is one
    assert in_kinds(one, [1]) == problem(CallTest("[1]", "2"), replace(APART, shared=True), BESIDE)


async def test_what_passes_in_no_kind_is_no_problem_to_use() -> None:
    held_out = CheckTest(BESIDE.code, held_out=True)
    bad = await found(problem(NEVER), problem(NOTHING), problem(held_out), problem(APART, references=()))
    assert ["does not pass" in bad[place].fault for place in (0, 2)] == [True] * 2
    assert bad[1].fault == "tests[0]: its tests can judge no program: never called the program"
    assert bad[3].fault == "has no reference to try it with"


async def test_a_reference_passes_as_an_answer_too() -> None:
    """It has what its prompt imports then."""

    class Imports(Node):
        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            failed = pb.ExecutionItem(execution=pb.Execution(verdict=verdict_pb2.VERDICT_RUNTIME_ERROR))
            passed = await super().execute_batch(programs)
            return [item if "import" in one.source else failed for one, item in zip(programs, passed, strict=True)]

    prompt = "from typing import List\n\ndef f(x: List[int]) -> int:\n    ..."
    one = replace(problem(APART, references=("def f(x: List[int]) -> int:\n    return 2",)), prompt=prompt)
    bare = replace(one, prompt="Write f.")
    assert [bool(each.fault) for each in await found(one, bare, node=Imports())] == [False, True]


async def test_tests_that_any_program_passes_judge_nothing() -> None:
    class Judges(Node):
        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            failed = pb.ExecutionItem(execution=pb.Execution(verdict=verdict_pb2.VERDICT_FAILED))
            passed = await super().execute_batch(programs)
            judged = [one.tests[0].check.code == "judged" and "object()" in one.source for one in programs]
            return [failed if wrong else item for wrong, item in zip(judged, passed, strict=True)]

    problems = (
        problem(APART),
        problem(CheckTest("judged")),
        problem(CallTest("[1]", "2")),
        problem(replace(APART, shared=True)),
    )
    async with Executor(Judges()) as executor:
        environment = CodeEnvironment(executor, forgeable=True)
        tried = await preflight_all(environment, [Task.of(one) for one in problems], tests_too=True)
    assert [one.fault for one in tried] == ["its tests pass whatever the program gives", "", "", ""]


async def test_limits_go_with_the_reference_and_each_is_told() -> None:
    seen: list[float] = []

    class Watched(Node):
        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            seen.extend(program.limits.cpu_time.ToTimedelta().total_seconds() for program in programs)
            return await super().execute_batch(programs)

    told: list[tuple[int, str]] = []

    def tell(place: int, one: Preflight) -> None:
        told.append((place, one.fault))

    await found(*[problem(APART)] * 2, node=Watched(), limits=Limits(timedelta(seconds=7)), tell=tell)
    assert seen == [7, 7]
    assert sorted(told) == [(0, ""), (1, "")]


async def test_what_takes_too_long_is_not_tried_beside_the_tests() -> None:
    kinds: list[int] = []

    class Slow(Node):
        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            kinds.extend(program.tests[0].check.grading for program in programs)
            return [pb.ExecutionItem(execution=pb.Execution(verdict=verdict_pb2.VERDICT_TIME_LIMIT))] * len(programs)

    (one,) = await found(problem(APART), node=Slow())
    assert len(kinds) == 2, "once, and once more alone"
    assert "TIME_LIMIT" in one.fault
    assert problem_pb2.CheckTest.GRADING_SHARED not in kinds
