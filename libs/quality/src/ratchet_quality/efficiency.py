"""How much CPU time a program takes, against the reference's, on the largest inputs of its problem's tests."""

from dataclasses import replace
from datetime import timedelta

from ratchet.common.v1 import verdict_pb2
from ratchet_environments import Task
from ratchet_environments.executor import Executor
from ratchet_environments.programs import program_for
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import AnswerTest, CallTest, CheckTest, Problem, StdioTest, TestCase
from ratchet_quality.score import Score, reference, within

LARGEST = 3
"""So many tests, those with the largest inputs."""
RUNS = 3
"""Runs, of which the fastest counts: other work on the machine only adds time."""
UNSEEN = timedelta(milliseconds=10)
"""Times below this are taken for equal to it: the process itself takes some of it, and they differ by chance."""


async def measure(executor: Executor, task: Task, source: str) -> Score:
    """The reference's CPU time over the program's, at most 1: 0.5 for a program that takes twice as long. 0 for one
    that does not pass these tests. Both run in the sandbox, in turn.

    Raises NotMeasurable for a problem without a reference that passes, Unavailable when the platform failed.
    """
    problem = task.problem
    if not problem.references:
        raise NotMeasurable(f"{problem.id} has no reference to measure against")
    tried = replace(task, problem=largest(problem), is_program=True)
    theirs: list[timedelta] = []
    ours: list[timedelta] = []
    for _ in range(RUNS):
        took = await cpu_time(executor, tried, reference(problem))
        if took is None:
            raise NotMeasurable(f"the reference of {problem.id} does not pass its tests here")
        theirs.append(took)
        took = await cpu_time(executor, tried, source)
        if took is None:
            return Score(0.0, "it does not pass")
        ours.append(took)
    return compare(min(ours), min(theirs))


class NotMeasurable(Exception):
    """The problem's fault, and nothing is known of the program."""


def compare(ours: timedelta, theirs: timedelta) -> Score:
    value = within(max(ours, UNSEEN).total_seconds(), max(theirs, UNSEEN).total_seconds())
    milliseconds = ours / timedelta(milliseconds=1), theirs / timedelta(milliseconds=1)
    return Score(value, f"{milliseconds[0]:.0f} ms of CPU time; the reference takes {milliseconds[1]:.0f} ms")


def largest(problem: Problem) -> Problem:
    """The problem with the tests of its largest inputs alone."""
    tests = sorted(problem.tests, key=_size, reverse=True)[:LARGEST]
    return replace(problem, tests=tuple(tests))


def _size(test: TestCase) -> int:
    match test:
        case CallTest():
            return len(test.args)
        case StdioTest():
            return len(test.stdin)
        case CheckTest():
            return len(test.code)
        case AnswerTest():
            return 0


async def cpu_time(executor: Executor, task: Task, source: str) -> timedelta | None:
    """CPU time of one run with the task's tests; None for a program that does not pass. Raises NotMeasurable where the
    sandbox can't run it, Unavailable."""
    try:
        execution = await executor.execute(program_for(task, source))
    except InvalidArgument as error:
        raise NotMeasurable(f"{task.problem.id}: {error.message}") from error
    if execution.verdict != verdict_pb2.VERDICT_PASSED:
        return None
    return execution.cpu_time.ToTimedelta()
