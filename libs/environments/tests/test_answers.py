"""Answers that are compared with the right ones: the words here, mathematics in a sandbox-service of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments import Task, judge
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.preflight import preflight
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.errors import Unavailable, Unimplemented
from ratchet_problems import AnswerTest, Problem
from ratchet_problems.answer_program import answered, final, is_right


def problem(*accepted: str, references: tuple[str, ...] = ()) -> Problem:
    return Problem("p", "How much?", (AnswerTest(accepted),), references=references)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So it is \\boxed{\\frac{1}{2}}, surely.", "\\frac{1}{2}"),
        ("\\boxed{1} no, \\boxed{\\text{Paris}}", "Paris"),
        ("The answer is Paris\nas everybody knows", "Paris"),
        ("3 x 14 = 42\n#### 42", "42"),
        ("Let me see.\nParis\n", "Paris"),
        ("\\boxed{", ""),
        ("", ""),
    ],
)
def test_the_final_answer_is_found(text: str, expected: str) -> None:
    assert final(text) == expected


def test_thoughts_are_no_answer() -> None:
    assert answered("<think>41?</think>42") == "42"
    assert answered("41?</think>42") == "42"
    assert answered("<think>is it 42") == ""


@pytest.mark.parametrize(
    ("accepted", "text", "right"),
    [
        ("Paris", "The answer is: paris.", True),
        ("The Beatles", "**Answer:** Beatles", True),
        ("B", "(B)", True),
        ("B", "The answer is (B).", True),
        ("B", "A or B", False),
        ("yes", "no", False),
        ("York New", "New York", False),
        ("Jean-Paul Sartre", "Jean Paul Sartre", True),
        ("Paris", "", False),
    ],
)
def test_words_are_compared_without_case_and_punctuation(accepted: str, text: str, right: bool) -> None:
    assert is_right([accepted], text) is right


@pytest.mark.parametrize(
    ("accepted", "text"),
    [
        ("10 km", "10 m"),
        ("10 km", "The answer is 10 bananas."),
        ("12 hours", "12 minutes"),
        ("10 m", "10 s"),
        ("10\\text{ km}", "\\boxed{10 \\text{ miles}}"),
        ("42", "The answer isn't 42"),
        ("42", "The answer is unlikely to be 42"),
        ("42", "\\boxed{\\ne 42}"),
        ("42", "42? No."),
        ("41", "answer: 41 or 42"),
        ("42", "\\boxed{41 \\lor 42}"),
        ("42", "The answer is 42, or maybe 43"),
        ("10 apples", "10 pears"),
    ],
)
def test_other_units_denials_and_hedges_are_not_compared(accepted: str, text: str) -> None:
    assert not is_right([accepted], text)


@pytest.mark.parametrize(
    ("accepted", "text"),
    [
        ("Zürich", "Zu\u0308rich"),
        ("3:00 PM", "3:00 pm"),
        ("12 hours", "The answer is 12 Hours."),
        ("４２", "42"),
        ("Paris", "\\textbf{Paris}"),
        ("B", "Option B"),
        ("2 apples", "2 Apples"),
    ],
)
def test_words_are_the_same_in_any_form_of_their_letters(accepted: str, text: str) -> None:
    assert is_right([accepted], answered(text))


class Lacking:
    """A sandbox whose runtime has no math-verify."""

    async def execute_batch(self, programs: list[pb.Program]) -> list[pb.ExecutionItem]:
        failed = pb.Execution(verdict=3, stderr="ModuleNotFoundError: No module named 'math_verify'")
        return [pb.ExecutionItem(index=place, execution=failed) for place, _ in enumerate(programs)]


async def test_what_cannot_be_compared_is_no_wrong_answer() -> None:
    async with Executor(Lacking()) as executor:
        with pytest.raises(Unavailable, match="No module named 'math_verify'"):
            await judge(CodeEnvironment(executor), Task.of(problem("42")), "42")


@asynccontextmanager
async def judging(target: str) -> AsyncIterator[CodeEnvironment]:
    await wait_healthy(target, timedelta(seconds=60))
    async with channel(target) as door, Executor(GrpcSandbox(door)) as executor:
        environment = CodeEnvironment(executor)
        try:
            await judge(environment, Task.of(problem("42")), "42")
        except Unimplemented:
            pytest.skip("the runtime math isn't built here: scripts/setup.sh sandbox-math")
        yield environment


RIGHT = [
    ("42", "6 x 7 = 42"),
    ("42", "I get $\\boxed{42}$."),
    ("\\frac{1}{2}", "0.5"),
    ("1/2", "It is \\frac{1}{2}, so \\boxed{\\frac{1}{2}}"),
    ("1,000", "#### 1000"),
    ("18", "She makes 9 * 2 = $<<9*2=18>>18 every day.\n#### 18"),
    ("x^2+1", "\\boxed{1+x^2}"),
    ("3\\sqrt{2}", "$\\sqrt{18}$"),
    ("5", "x = 5"),
    ("10 cm", "10"),
    ("$42$", "#### $42"),
    ("10 km", "He drives 10 km"),
    ("10 apples", "answer: 10 in total"),
    ("1 hour", "1 hours"),
    ("3i+2", "2+3i"),
    ("1000000", "1e6"),
    ("3.5", "\\boxed{3 1/2}"),
    ("42", "The answer is not 41 but 42"),
    ("3ab", "\\boxed{3ba}"),
    ("4ab - 2", "4ab-2"),
    ("10", "10km"),
]
WRONG = [
    ("42", "41"),
    ("42", "\\boxed{42}, \\boxed{41}"),
    ("42", "\\boxed{41, 42}"),
    ("42", "I do not know"),
    ("-3", "3"),
    ("2", "1, 2, 3"),
    ("42", "#### 42 or 41"),
    ("4ab - 2", "4ab + 2"),
    ("3", "3ab"),
    ("3", "\\boxed{3ab}"),
    ("3ab", "3"),
    ("10 km", "10 m"),
    ("42", ""),
    ("7", "__import__('os').system('id')"),
]
HOSTILE = ["9**9**9", "$1000000000!$", "$" + "{" * 5000 + "$", "(" * 9000, "\\boxed{" * 1000]


@pytest.mark.integration
async def test_mathematics_is_compared_in_the_sandbox(sandbox_target: str) -> None:
    async with judging(sandbox_target) as environment:
        for accepted, text in RIGHT:
            assert (await judge(environment, Task.of(problem(accepted)), text)).grade.passed, (accepted, text)
        for accepted, text in WRONG:
            grade = (await judge(environment, Task.of(problem(accepted)), text)).grade
            assert (grade.verdict, grade.tests_total) == ("FAILED", 1), (accepted, text)
        several = Task.of(problem("41", "42"))
        assert (await judge(environment, several, "42")).grade.passed


@pytest.mark.integration
async def test_a_hostile_answer_is_a_wrong_one(sandbox_target: str) -> None:
    async with judging(sandbox_target) as environment:
        for text in HOSTILE:
            grade = (await judge(environment, Task.of(problem("7")), text)).grade
            assert grade.verdict in ("FAILED", "TIME_LIMIT", "MEMORY_LIMIT"), (text[:40], grade)
        assert (await judge(environment, Task.of(problem("7")), "7")).grade.passed


@pytest.mark.integration
async def test_a_solution_is_tried_as_references_are(sandbox_target: str) -> None:
    async with judging(sandbox_target) as environment:
        right = problem("42", references=("6 x 7 = 42\n#### 42",))
        assert not (await preflight(environment, Task.of(right))).fault
        wrong = problem("42", references=("6 x 7 = 41\n#### 41",))
        assert (await preflight(environment, Task.of(wrong))).fault == (
            "tests[0]: its reference does not pass: FAILED gave 41"
        )
