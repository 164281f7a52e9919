"""Mutants differ from their program in one place; cheats solve nothing."""

import pytest

from ratchet_problems import CallTest, CheckTest, Problem, StdioTest
from ratchet_problems.cheats import cheats
from ratchet_problems.mutants import mutants

SOURCE = '''
def f(a: int, b: int = 1) -> int:
    """Adds, or 0."""
    total = 0
    if a < b and not a == 3:
        total += a + b
    return max(total, 2)
'''


def test_each_mutant_is_another_program_in_one_place() -> None:
    found = mutants(SOURCE, 100)
    sources = {one.source for one in found}
    assert len(sources) == len(found) > 10
    assert {one.change for one in found} >= {
        "a < b -> a <= b",
        "a + b -> a - b",
        "max -> min",
        "a < b and (not a == 3) -> a < b or not a == 3",
        "return max(total, 2) -> return None",
    }
    assert all("Adds, or 0." in source for source in sources)
    for one in found:
        compile(one.source, "mutant", "exec")


def test_few_mutants_are_of_places_all_over_the_program() -> None:
    lines = [one.line for one in mutants(SOURCE, 5)]
    assert len(lines) <= 5
    assert {5, 6} & set(lines)
    assert max(lines) == 7


@pytest.mark.parametrize("source", ["def f(:", "", "x = 1\x00"])
def test_nothing_comes_of_no_program(source: str) -> None:
    assert mutants(source, 10) == []


def run(source: str, name: str, *arguments: object) -> object:
    scope: dict[str, object] = {}
    exec(source, scope)
    function = scope[name]
    assert callable(function)
    return function(*arguments)


def test_cheats_of_a_function_know_what_is_expected_and_what_the_prompt_says() -> None:
    prompt = "Add two.\n>>> add(1, 2)\n3\nassert add(2, 2) == 4"
    tests = (CallTest("[4, 5]", "9"), CallTest("[4, 5, [1]]", "9"), CheckTest("assert add(5, 5) == 10"))
    reference = "def add(a, b, c=None):\n    if c: raise ValueError\n    return a + b\n"
    found = {one.name: one.source for one in cheats(Problem("p", prompt, tests, "add", (reference,)))}
    assert run(found["always 9"], "add", 1) == 9
    assert run(found["always 10"], "add", 1) == 10
    assert run(found["its length"], "add", [1, 2]) == 2
    by_heart = found["the prompt's examples by heart"]
    assert [run(by_heart, "add", 1, 2), run(by_heart, "add", 2, 2), run(by_heart, "add", 9)] == [3, 4, None]
    swallowing = found["the reference, its exceptions swallowed"]
    assert [run(swallowing, "add", 1, 2), run(swallowing, "add", 1, 2, [1])] == [3, None]
    anything = run(found["an object that equals everything"], "add")
    assert anything == 3
    assert anything == []
    assert not anything != 3  # noqa: SIM202


def test_cheats_of_a_method_and_of_a_script() -> None:
    method = Problem("p", "Write it.", (CallTest("[1]", "2"),), "Solution.f", ())
    assert "class Solution:\n    def f(self" in cheats(method)[0].source
    script = Problem("p", "Print.", (StdioTest("1", "yes\n"), StdioTest("2", "yes\n")))
    assert [one.name for one in cheats(script)] == ["prints nothing", "prints its input", "always prints 'yes'"]


def test_classes_and_other_languages_have_no_cheats() -> None:
    assert cheats(Problem("p", "class Bag: ...", (CheckTest("assert Bag()"),), "Bag", ("class Bag: ...",))) == []
    assert cheats(Problem("p", "Print.", (StdioTest("1", "1"),), language="go")) == []
