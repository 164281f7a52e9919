"""Basic problems, written by hand."""

from ratchet_problems.problem import CallTest, Problem


def basic_problems() -> tuple[Problem, ...]:
    reference = "def is_even(n):\n    return n % 2 == 0\n"
    return (
        Problem(
            id="basics/is_even", prompt="Write is_even(n) that returns whether n is even.", entry_point="is_even",
            tests=(CallTest.of([2], True), CallTest.of([3], False), CallTest.of([0], True)), references=(reference,),
            source="ratchet/basics", licence="Apache-2.0",
        ),
    )
