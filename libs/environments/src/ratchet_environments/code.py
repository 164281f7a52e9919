"""Single-turn: the policy answers with a program, and the problem's tests are the judge. Where a problem has a right
answer, the policy's is compared with it. Where it has neither, the answer may be anything, and nothing of it is run:
rewards judge it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments import answers
from ratchet_environments.episode import Episode, Outcome
from ratchet_environments.executor import Executor
from ratchet_environments.failures import LONGEST, LONGEST_STDERR, MOST, FailedTest, Failures, shown
from ratchet_environments.programs import program_for
from ratchet_environments.task import Task
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.text import clip
from ratchet_kit.times import duration_from_proto
from ratchet_problems import Problem
from ratchet_problems.problem import TestCase
from ratchet_rewards import UNTESTED, Grade

_LONGEST = 200
"""Bytes of each value that a sentence has."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of an answer's program."""

    grade: Grade
    results: Sequence[pb.TestResult] = ()
    """Results of the tests that it came to, in order."""
    failures: Failures = field(default_factory=Failures)


class CodeEnvironment:
    """An Environment. `executor` stays the caller's to open and close."""

    def __init__(self, executor: Executor, *, forgeable: bool = False) -> None:
        """`forgeable`: takes problems whose tests share the program's process, which can learn to forge its rewards."""
        self._executor = executor
        self._forgeable = forgeable

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        """The end of the episode. Raises what `run` raises."""
        ran = await self.run(episode.task, answer)
        return episode.end(answer, Outcome(ran.grade), ran.failures)

    async def run(self, task: Task, answer: str) -> Ran:
        """Raises Unavailable when the platform failed again and again, InvalidArgument for a problem that the sandbox
        can't run, or whose tests can judge no program, Unimplemented where it lacks what compares answers. An answer
        that it can't run, one that is too long, is graded COMPILE_ERROR."""
        if not task.problem.tests:
            return Ran(Grade(UNTESTED, 0, 0))
        if task.problem.answers:
            return Ran(await answers.grade(self._executor, task.problem, answer))
        if task.problem.forgeable and not self._forgeable:
            raise InvalidArgument(
                f"{task.problem.id}: its tests share the program's process: its rewards can be forged"
            )
        try:
            execution = await self._executor.execute(program_for(task, answer))
            return Ran(grade_of(execution), execution.results, failures_of(task.problem, execution))
        except InvalidArgument as error:
            if not error.violations or not all(fault.field.endswith(".source") for fault in error.violations):
                raise
            tests = len(task.problem.tests)
            return Ran(Grade("COMPILE_ERROR", 0, tests, error.message, task.problem.forgeable))


def grade_of(execution: pb.Execution) -> Grade:
    """Raises InvalidArgument where the tests can judge no program."""
    if execution.HasField("failure"):
        raise InvalidArgument(f"{execution.id}: its tests can judge no program: {execution.failure.message}")
    verdict = verdict_pb2.Verdict.Name(execution.verdict).removeprefix("VERDICT_")
    return Grade(
        verdict,
        execution.tests_passed,
        execution.tests_total,
        execution.detail or _difference(execution.results),
        execution.forgeable,
        duration_from_proto(execution.cpu_time) if execution.HasField("cpu_time") else None,
        bool(execution.results) and all(result.by_values for result in execution.results),
        execution.max_memory_bytes,
    )


def _difference(results: Sequence[pb.TestResult]) -> str:
    """The result of the first test that failed; empty where it may not be shown."""
    first = next((one for one in results if not one.passed), None)
    if first is None or not (first.got or first.expected):
        return ""
    got, expected = (" ".join(text.split()) for text in (first.got, first.expected))
    hint = " (a tuple, where a list is expected)" if _is_tuple_for_list(got, expected) else ""
    return f"gave {clip(got, _LONGEST) or 'nothing'}, not {clip(expected, _LONGEST) or 'nothing'}{hint}"


def _is_tuple_for_list(got: str, expected: str) -> bool:
    return got[:1] == "(" and expected[:1] == "[" and got[1:-1].rstrip(",") == expected[1:-1]


def failures_of(problem: Problem, execution: pb.Execution) -> Failures:
    results = zip(problem.tests, execution.results, strict=False)
    failed = [(test, result) for test, result in results if not result.passed]
    shown = [_failed(problem, test, result) for test, result in failed if not (test.held_out or result.held_out)]
    held_out = len(failed) - len(shown)
    # A test of C++ or Java is compiled with the program, and compilers quote it.
    stderr = execution.stderr if held_out else execution.compile_output or execution.stderr
    return Failures(tuple(shown[:MOST]), held_out, stderr[-LONGEST_STDERR:])


def _failed(problem: Problem, test: TestCase, result: pb.TestResult) -> FailedTest:
    own = shown(problem, test)
    expected = clip(result.expected, LONGEST) or own.expected
    return FailedTest(own.test, expected, clip(result.got, LONGEST), clip(result.error, LONGEST))
