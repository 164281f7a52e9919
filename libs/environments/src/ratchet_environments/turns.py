"""A program in several answers: what came of it is told, and the program is written again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.code import CodeEnvironment, Ran
from ratchet_environments.episode import Episode, Outcome
from ratchet_environments.task import Task
from ratchet_problems import AnswerTest, CallTest, CheckTest, Message, Problem, StdioTest
from ratchet_problems.problem import TestCase
from ratchet_rewards import TAMPERED, UNTESTED, Grade

LONGEST = 200
"""Characters of each value that a line has: what was asked, expected and found."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The part of a result that may be told: nothing that a held-out test decides."""

    problem: Problem
    answers: Sequence[str]
    """All so far, this one last."""
    tests: Sequence[TestCase]
    """The tests that may be shown."""
    ran: Ran
    """The results of its program on them."""

    @property
    def failing(self) -> list[str]:
        """A line for each that failed, of those that it came to, in order."""
        reached = zip(self.tests, self.ran.results, strict=False)
        return [_line(self.problem, test, result) for test, result in reached if not result.passed]


Reply = Callable[[Seen], Awaitable[str | None]]
"""The reply to the policy; None ends the episode. Raises Unavailable, InvalidArgument."""


class TurnsEnvironment:
    """An Environment. Each answer is a whole program, and its turn's grade is that of all tests. An episode ends when
    there is no reply, the program has tried to tamper, or it is the last of `max_turns`."""

    def __init__(self, code: CodeEnvironment, max_turns: int, reply: Reply) -> None:
        self._code = code
        self._max_turns = max_turns
        self._reply = reply

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        """Raises what `CodeEnvironment.run` and the reply raise."""
        task, problem = episode.task, episode.task.problem
        tests = tuple(test for test in problem.tests if not test.held_out)
        is_last = len(episode.turns) + 1 >= self._max_turns
        if is_last or tests == problem.tests:
            ran = seen = await self._code.run(task, answer)
        elif not tests:
            ran, seen = await self._code.run(task, answer), Ran(Grade(UNTESTED, 0, 0))
        else:
            shown = replace(task, problem=replace(problem, tests=tests))
            ran, seen = await asyncio.gather(self._code.run(task, answer), self._code.run(shown, answer))
        if is_last or seen.grade.verdict == TAMPERED:
            return episode.end(answer, Outcome(ran.grade), ran.failures)
        answers = [*(turn.answer for turn in episode.turns), answer]
        said = await self._reply(Seen(problem, answers, tests, seen))
        if said is None:
            return episode.end(answer, Outcome(ran.grade), ran.failures)
        return episode.go_on(answer, ran.grade, Message("user", said), failures=ran.failures)


def _line(problem: Problem, test: TestCase, result: pb.TestResult) -> str:
    found = clipped(result.error or result.got)
    match test:
        case CallTest():
            arguments = clipped(test.args[1:-1] if test.args.startswith("[") else test.args)
            wanted = f"raises {test.raises}" if test.raises else clipped(test.expected)
            return f"{problem.entry_point}({arguments}): {found}, not {wanted}"
        case StdioTest():
            return f"on input {clipped(test.stdin)!r}: {found!r}, not {clipped(test.expected_stdout)!r}"
        case CheckTest():
            return found or "a test fails"
        case AnswerTest():
            return found


def clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
