"""The hand-written problems. Their first test was written by hand, so a wrong reference fails here."""

from collections.abc import Callable

from ratchet_problems import CallTest, Problem, load

Judge = Callable[[Problem, str], list[str]]


def test_there_are_a_hundred_distinct_ones_of_every_difficulty() -> None:
    problems = load("basics")
    assert len({problem.id for problem in problems}) == len({problem.prompt for problem in problems}) == 100
    assert {problem.difficulty for problem in problems} == {1, 2, 3, 4, 5}


def test_every_reference_passes_its_tests(judge: Judge) -> None:
    assert [
        wrong for problem in load("basics") for program in problem.references for wrong in judge(problem, program)
    ] == []


def test_no_constant_answer_passes() -> None:
    for problem in load("basics"):
        results = {test.expected for test in problem.tests if isinstance(test, CallTest)}
        assert len(problem.tests) >= 3, problem.id
        assert len(results) >= 2, problem.id
