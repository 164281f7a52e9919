"""A program in several edits: what fails is shown, and the program is written again."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.code import CodeEnvironment, Ran
from ratchet_environments.episode import Episode, Outcome
from ratchet_environments.task import Task
from ratchet_problems import CallTest, CheckTest, Message, Problem, StdioTest
from ratchet_problems.problem import TestCase
from ratchet_rewards import TAMPERED

LONGEST = 200
"""Characters of each value in a reply: what was asked, expected and found."""


class EditsEnvironment:
    """An Environment. Each answer is a whole program, and its turn's grade is that of all tests. An episode ends when
    the program passes the tests that may be shown, has tried to tamper, or is the last of `max_turns`.

    Replies say what failed of those tests. Held-out ones decide nothing but grades: neither what a reply says nor
    whether there is one.
    """

    def __init__(self, code: CodeEnvironment, max_turns: int) -> None:
        self._code = code
        self._max_turns = max_turns

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        """Raises what `CodeEnvironment.run` raises."""
        task, problem = episode.task, episode.task.problem
        tests = tuple(test for test in problem.tests if not test.held_out)
        is_last = not tests or len(episode.turns) + 1 >= self._max_turns
        if is_last or tests == problem.tests:
            ran = seen = await self._code.run(task, answer)
        else:
            shown = replace(task, problem=replace(problem, tests=tests))
            ran, seen = await asyncio.gather(self._code.run(task, answer), self._code.run(shown, answer))
        if is_last or seen.grade.passed or seen.grade.verdict == TAMPERED:
            return episode.end(answer, Outcome(ran.grade))
        return episode.go_on(answer, ran.grade, Message("user", reply(problem, tests, seen)))


def reply(problem: Problem, tests: Sequence[TestCase], ran: Ran) -> str:
    """What the policy is told of a program that fails `tests`, those that may be shown: how many of them, and of the
    shortest what came, as a small counterexample says most."""
    reached = zip(tests, ran.results, strict=False)
    failing = [_line(problem, test, result) for test, result in reached if not result.passed]
    wrong = len(tests) - ran.grade.tests_passed
    said = min(failing, key=len, default=_clipped(ran.grade.detail or ran.grade.verdict))
    return f"{wrong} of {len(tests)} tests fail: {said}"


def _line(problem: Problem, test: TestCase, result: pb.TestResult) -> str:
    found = _clipped(result.error or result.got)
    match test:
        case CallTest():
            arguments = _clipped(test.args[1:-1] if test.args.startswith("[") else test.args)
            wanted = f"raises {test.raises}" if test.raises else _clipped(test.expected)
            return f"{problem.entry_point}({arguments}): {found}, not {wanted}"
        case StdioTest():
            return f"on input {_clipped(test.stdin)!r}: {found!r}, not {_clipped(test.expected_stdout)!r}"
        case CheckTest():
            return found or "a test fails"


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
