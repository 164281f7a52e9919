"""CPU time against the reference's, with a sandbox that answers as written."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments import Task
from ratchet_environments.executor import Executor
from ratchet_problems import CallTest, Problem
from ratchet_quality import efficiency
from ratchet_quality.efficiency import NotMeasurable, compare, largest, measure

REFERENCE = "def f(xs):\n    return sum(xs)\n"
PROBLEM = Problem(
    "p",
    "Sum xs.",
    tuple(CallTest.of([list(range(size))], 0) for size in (1, 50, 2, 40, 30)),
    entry_point="f",
    references=(REFERENCE,),
)


class Sandbox:
    """Source -> CPU milliseconds of its runs, the last of them again and again; a source that is not there fails."""

    def __init__(self, **times: Sequence[int]) -> None:
        self._times = {name: list(times) for name, times in times.items()}
        self.programs: list[pb.Program] = []

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        self.programs += programs
        return [pb.ExecutionItem(index=i, execution=self._run(one)) for i, one in enumerate(programs)]

    def _run(self, program: pb.Program) -> pb.Execution:
        name = "reference" if program.source == REFERENCE else program.source
        if name not in self._times:
            return pb.Execution(verdict=verdict_pb2.VERDICT_FAILED)
        times = self._times[name]
        done = pb.Execution(verdict=verdict_pb2.VERDICT_PASSED)
        done.cpu_time.FromMilliseconds(times.pop(0) if len(times) > 1 else times[0])
        return done


async def measured(sandbox: Sandbox, source: str, problem: Problem = PROBLEM) -> efficiency.Score:
    async with Executor(sandbox) as executor:
        return await measure(executor, Task.of(problem), source)


async def test_the_fastest_run_of_each_counts() -> None:
    sandbox = Sandbox(reference=[300, 100, 200], slow=[900, 400, 200])
    found = await measured(sandbox, "slow")
    assert found.value == 0.5
    assert found.detail == "200 ms of CPU time; the reference takes 100 ms"
    # in turn, on the largest inputs alone
    assert [program.source for program in sandbox.programs[:2]] == [REFERENCE, "slow"]
    assert [len(program.tests) for program in sandbox.programs] == [3] * 6


async def test_faster_than_the_reference_is_one_and_failing_is_zero() -> None:
    assert (await measured(Sandbox(reference=[100], fast=[20]), "fast")).value == 1.0
    assert (await measured(Sandbox(reference=[100]), "wrong")).value == 0.0


async def test_a_problem_without_a_sound_reference_says_nothing_of_a_program() -> None:
    with pytest.raises(NotMeasurable, match="does not pass"):
        await measured(Sandbox(ours=[1]), "ours")
    bare = Problem("q", "Sum.", PROBLEM.tests, entry_point="f")
    with pytest.raises(NotMeasurable, match="has no reference"):
        await measured(Sandbox(), "ours", bare)


def test_times_too_short_to_tell_apart_are_equal() -> None:
    assert compare(timedelta(milliseconds=9), timedelta(milliseconds=1)).value == 1.0
    assert compare(timedelta(milliseconds=40), timedelta(milliseconds=1)).value == 0.25


def test_the_largest_inputs() -> None:
    args = [test.args for test in largest(PROBLEM).tests if isinstance(test, CallTest)]
    assert [text.count(",") + 1 for text in args] == [50, 40, 30]
