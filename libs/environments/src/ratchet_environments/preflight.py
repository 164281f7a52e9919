"""Problems tried before they are used: does the reference pass, and may the tests stay apart from the program?

All tests are run against the problem's first reference, in the strict kind; where that fails, each by itself. Only a
check that fails there is tried in the shared kind, and takes it where it passes: the verdicts on that problem can be
forged (docs/sandbox/grading.md).

A check that says it is `shared`, as BigCodeBench's do, stays so: its official number is of programs pasted together
with their tests, which may use what those import or patch, whatever the reference does.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import NamedTuple

from ratchet_environments.environment import Environment, judge
from ratchet_environments.task import Task
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CheckTest, Problem, TestCase

DECLARED = "its test says so"
KINDS = ("strict, by values", "strict, by the tests' own process", "shared", "refused")
_AT_A_TIME = 32
_ANY_PROGRAM = "def {name}(*args, **kwargs):\n    return object()\n"
"""One that gives what nobody expects."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The outcome for a problem."""

    problem: Problem
    """With each check in the kind of grading that it takes."""
    shared: Mapping[int, str] = field(default_factory=dict)
    """The places of tests that share the program's process, and why: what went wrong in the strict kind, or that they
    say so."""
    fault: str = ""
    """Why it can't be used: its reference does not pass, or it has none."""
    cpu_time: timedelta = timedelta()
    """CPU time of its reference, with all tests; 0 where it is not known."""
    by_values: bool = False
    """The sandbox compared all values and outputs of its reference itself: no test code ran."""
    memory_bytes: int = 0
    """Peak of its reference's resident memory; 0 where it is not known."""

    @property
    def kind(self) -> str:
        """How its tests were judged, in one of KINDS."""
        return KINDS[3 if self.fault else 2 if self.shared else 0 if self.by_values else 1]


def in_kinds(problem: Problem, shared: Collection[int]) -> Problem:
    """The problem with the checks at these places in the shared kind, and its others in the strict one."""
    tests = tuple(_as(test, place in shared) for place, test in enumerate(problem.tests))
    return problem if tests == problem.tests else replace(problem, tests=tests)


async def preflight(environment: Environment, task: Task, tests_too: bool = False) -> Preflight:
    """`environment`: one that takes tests which share the program's process. `tests_too`: tests that any program passes
    are a fault, too. Raises what it raises but InvalidArgument, which is the problem's fault."""
    problem = task.problem
    if not problem.references:
        return Preflight(problem, fault="has no reference to try it with")
    declared = (place for place, test in enumerate(problem.tests) if isinstance(test, CheckTest) and test.shared)
    shared = dict.fromkeys(declared, DECLARED)
    together = await _tried(environment, task, *problem.tests)
    if not together.wrong:
        nothing = tests_too and await _judge_nothing(environment, task)
        fault = "its tests pass whatever the program gives" if nothing else ""
        return Preflight(problem, shared, fault, together.cpu_time, together.by_values, together.memory_bytes)
    for place, test in enumerate(problem.tests):
        one = await _tried(environment, task, test) if len(problem.tests) > 1 else together
        wrong = one.wrong
        if wrong.startswith("TIME_LIMIT"):
            pass  # no kind of grading would help
        elif wrong and isinstance(test, CheckTest) and not (test.shared or test.held_out):
            beside = await _tried(environment, task, _as(test, True))
            if not beside.wrong:
                shared[place] = wrong
                continue
            if beside.wrong != wrong:
                wrong = f"{wrong}; and beside the program: {beside.wrong}"
        if wrong:
            of_reference = "" if one.of_tests else "its reference does not pass: "
            return Preflight(problem, fault=f"tests[{place}]: {of_reference}{wrong}")
    return Preflight(in_kinds(problem, shared), shared, cpu_time=together.cpu_time, memory_bytes=together.memory_bytes)


async def preflight_all(
    environment: Environment,
    tasks: Sequence[Task],
    at_a_time: int = _AT_A_TIME,
    tell: Callable[[int, Preflight], None] = lambda place, found: None,
    tests_too: bool = False,
) -> list[Preflight]:
    """In order. What fails is tried once more alone: it may only have been slow among the others. `tell` is given the
    place of each task and what became of it, as it ends; twice where it is tried twice. Raises what `preflight`
    raises."""
    room = asyncio.Semaphore(at_a_time)

    async def one(place: int, task: Task) -> Preflight:
        async with room:
            found = await preflight(environment, task, tests_too)
        tell(place, found)
        return found

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(place, task)) for place, task in enumerate(tasks)]
    except ExceptionGroup as error:
        raise error.exceptions[0] from error  # the first one ended the others
    found = [each.result() for each in running]
    for place, task in enumerate(tasks):
        if found[place].fault and task.problem.references:
            found[place] = await one(place, task)
    return found


async def _judge_nothing(environment: Environment, task: Task) -> bool:
    """True where a function that gives an object without value passes all of them. Of programs that print, a method, or
    tests that say that they share its process, nothing is said."""
    problem = task.problem
    apart = all(isinstance(test, CheckTest) and not test.shared for test in problem.tests)
    if not (apart and problem.entry_point.isidentifier()):
        return False
    program = _ANY_PROGRAM.format(name=problem.entry_point)
    return not (await _judged(environment, replace(task, is_program=True), program)).wrong


def _as(test: TestCase, shared: bool) -> TestCase:
    return replace(test, shared=shared) if isinstance(test, CheckTest) else test


class _Outcome(NamedTuple):
    wrong: str
    """Empty: it passes."""
    cpu_time: timedelta = timedelta()
    of_tests: bool = False
    """It is wrong whatever the program is."""
    by_values: bool = False
    memory_bytes: int = 0


async def _tried(environment: Environment, task: Task, *tests: TestCase) -> _Outcome:
    """The program of the reference, which passes as it stands, or as an answer: with the imports of its prompt, and the
    names that LeetCode lends."""
    tried = replace(task, problem=replace(task.problem, tests=tests))
    reference = task.problem.references[0]
    as_it_stands = await _judged(environment, replace(tried, is_program=True), reference)
    if not as_it_stands.wrong or as_it_stands.of_tests or as_it_stands.wrong.startswith("TIME_LIMIT"):
        return as_it_stands
    as_answer = await _judged(environment, tried, f"```{task.problem.language}\n{reference}\n```")
    return as_it_stands if as_answer.wrong else as_answer


async def _judged(environment: Environment, task: Task, answer: str) -> _Outcome:
    try:
        grade = (await judge(environment, task, answer)).grade
    except InvalidArgument as error:
        said = "; ".join(one.description for one in error.violations) or error.message.partition(": ")[2]
        return _Outcome(said or error.message, of_tests=True)
    wrong = "" if grade.passed else f"{grade.verdict} {grade.detail}".strip()
    return _Outcome(wrong, grade.cpu_time or timedelta(), by_values=grade.by_values, memory_bytes=grade.memory_bytes)
