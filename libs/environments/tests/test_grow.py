"""What a model proposes, and which of it is a problem."""

import pytest

from ratchet_environments.executor import Executor
from ratchet_environments.grow import Novelty, Rejected, is_example, proposed, request, sound
from ratchet_kit.errors import Unavailable
from ratchet_problems import CallTest, CheckTest, Problem, StdioTest

from .test_strengthen import Node

ANSWER = '''Here is one:
```python
import math


def clamp(x: int, most: int) -> int:
    """Return x, but at most `most`, and at least zero."""
    if x > most:
        return most
    if x < 0:
        return 0
    return x


assert clamp(1, 5) == 1
assert clamp(9, 5) == 5
assert clamp(-3, 5) == 0
print(clamp(1, 2))
```
'''
FEW = ANSWER.replace("assert clamp(-3, 5) == 0\n", "")


def test_a_function_with_its_docstring_and_assertions_is_a_problem() -> None:
    found = proposed(ANSWER, "grown by m@1")
    assert (found.entry_point, found.source) == ("clamp", "grown by m@1")
    assert found.prompt.startswith('import math\ndef clamp(x: int, most: int) -> int:\n    """Return x, but')
    assert "return most" not in found.prompt
    assert found.tests == (CallTest.of([1, 5], 1), CallTest.of([9, 5], 5), CallTest.of([-3, 5], 0))
    assert "print" not in found.references[0]
    assert proposed(ANSWER, "grown by m@1").id == found.id


@pytest.mark.parametrize("end", ["assert clamp(1,", "def more(x):\n    return (", "This clamps x.\n"])
def test_what_a_torn_answer_says_before_its_end_counts(end: str) -> None:
    torn = ANSWER.partition("print")[0] + end
    assert proposed(torn, "m").tests == proposed(ANSWER, "m").tests


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I cannot.", "no Python"),
        (ANSWER.replace('"""Return x, but at most `most`, and at least zero."""', ""), "no function with a docstring"),
        (FEW.replace("assert clamp(9, 5) == 5", "assert clamp(1, 5) == 1"), "fewer than 2 assertions"),
        (FEW.replace("assert clamp(9, 5) == 5", "assert clamp(x, 5) == y"), "fewer than 2 assertions"),
        ('```python\ndef f(x):\n    """Return the sum of all x."""\n\nassert f(1) == 1\n```', "without a body"),
        ("```python\n" + "x = 1\n" * 2000 + "```", "no function with a docstring"),
    ],
)
def test_what_is_no_problem_is_rejected_in_a_few_words(answer: str, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        proposed(answer, "m")


async def test_a_sound_problem_has_tests_that_kill_mutants() -> None:
    async with Executor(Node()) as executor:
        found = await sound(executor, proposed(ANSWER, "m"))
    assert found.tests[:3] == proposed(ANSWER, "m").tests
    assert len(found.tests) > 3


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ANSWER.replace("== 5", "== 4"), "does not pass its own assertions"),
        (
            '```python\ndef zero(x):\n    """Return zero whatever it is."""\n    return 0\n\n'
            "assert zero(1) == 0\nassert zero(2) == 0\n```",
            "pass wrong programs",
        ),
    ],
)
async def test_a_wrong_solution_and_tests_that_a_constant_passes_are_rejected(answer: str, reason: str) -> None:
    async with Executor(Node()) as executor:
        with pytest.raises(Rejected, match=reason):
            await sound(executor, proposed(answer, "m"))


async def test_a_platform_that_fails_rejects_nothing() -> None:
    class Gone:
        async def execute_batch(self, programs: object) -> object:
            raise Unavailable("away")

    async with Executor(Gone(), attempts=1) as executor:  # type: ignore[arg-type]
        with pytest.raises(Unavailable):
            await sound(executor, proposed(ANSWER, "m"))


def test_what_is_nearly_known_is_not_new() -> None:
    novelty = Novelty([proposed(ANSWER.replace("clamp", "limited"), "a set")])
    with pytest.raises(Rejected, match="nearly the same"):
        novelty.add(proposed(ANSWER, "m"))
    other = (
        '```python\ndef vowels(text):\n    """Count the vowels of a text in English."""\n'
        '    return sum(c in "aeiou" for c in text)\n\nassert vowels("ab") == 1\nassert vowels("") == 0\n```'
    )
    novelty.add(proposed(other, "m"))
    with pytest.raises(Rejected, match="nearly the same"):
        novelty.add(proposed(other, "m"))


def test_a_model_is_shown_solutions_with_docstrings_and_assertions() -> None:
    bare = Problem("p", "Add two.\n\nMore.", (CallTest.of([1, 2], 3),), "add", ("def add(a, b):\n    return a + b\n",))
    half = 'def half(x):\n    """It."""\n    return x // 2\n'
    checked = Problem("q", "Half.", (CheckTest("assert half(4) == 2"),), "half", (half,))
    said = request([bare, checked])
    assert '    """Add two."""' in said
    assert "assert add(1, 2) == 3" in said
    assert "assert half(4) == 2" in said
    assert is_example(bare)
    assert not is_example(Problem("r", "Echo.", (StdioTest("1", "1"),), references=("print(1)",)))
