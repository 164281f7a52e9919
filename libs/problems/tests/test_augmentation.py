"""Variants of problems: what they ask for, and their tests, stay."""

import re

import pytest

from ratchet_kit import syntax
from ratchet_problems import CallTest, CheckTest, Problem, StdioTest, load
from ratchet_problems.augmentation import families, family
from ratchet_problems.near.search import Known
from ratchet_problems.near.sketches import sketch

PROMPT = '''def take_away(amount: int, part: int) -> int:
    """Return the given amount without the part.

    >>> take_away(5, (1 + 1))
    3
    """
'''
REFERENCE = (
    "def take_away(amount: int, part: int) -> int:\n"
    "    return amount if not part else take_away(amount - 1, part - 1)\n"
)
TESTS = (
    CallTest.of([5, 2], 3),
    CheckTest("def check(candidate):\n    assert candidate(5, 2) == 3\n    assert candidate(7, 0) == 7\n"),
    CheckTest("assert take_away(9, 1) == 8"),
)
PROBLEM = Problem("p", PROMPT, TESTS, "take_away", (REFERENCE,))


def judge(problem: Problem) -> None:
    scope: dict[str, object] = {}
    exec(problem.references[0], scope)
    function = scope[problem.entry_point]
    assert callable(function)
    for test in problem.tests:
        match test:
            case CallTest():
                given = syntax.value(test.args)
                assert isinstance(given, list)
                assert function(*given) == syntax.value(test.expected)
            case CheckTest():
                its = dict(scope)
                exec(test.code, its)
                if "check" in its:
                    its["check"](function)  # type: ignore[operator]
    exec(f"{problem.prompt}    pass", {})
    (shown,) = re.findall(rf">>> ({problem.entry_point}\(.*\))", problem.prompt)
    assert eval(shown, scope) == 3


def test_variants_keep_their_tests_and_are_one_family() -> None:
    found = family(PROBLEM, 12)
    assert len(found.variants) == 12
    for one in found.variants:
        judge(one)
    assert {found.problem.structure} == {one.structure for one in found.variants} == {"p"}
    assert len({one.prompt for one in (found.problem, *found.variants)}) == 13
    assert [one.id for one in found.variants] == [f"p~{number}" for number in range(1, 13)]
    assert family(PROBLEM, 12) == found


def test_a_set_is_augmented_further_without_the_same_again() -> None:
    (first,) = families([PROBLEM], 2)
    whole = [first.problem, *first.variants]
    again = families(whole, 2)
    new = [one for its in again for one in its.variants]
    assert new
    every = [*(its.problem for its in again), *new]
    assert len({one.id for one in every}) == len({one.prompt for one in every}) == len(every)
    assert {one.structure for one in every} == {"p"}


def test_a_variant_is_still_nearly_the_same_as_what_is_measured_on() -> None:
    """Nobody makes a benchmark's problems their own by augmenting them."""
    variants = family(PROBLEM, 12).variants
    assert {match.row for match in Known(sketch([PROBLEM])).matches(sketch(variants))} == set(range(12))


def test_each_kind_of_change_is_there() -> None:
    variants = family(PROBLEM, 12).variants
    tests = [one.tests[0] for one in variants]
    assert any(isinstance(test, CallTest) and test.args == "[2, 5]" for test in tests), "another order"
    assert any(one.entry_point != "take_away" for one in variants)
    assert any("amount" not in one.references[0] for one in variants) is False, "the words name it: it stays"
    assert any("the given amount" not in one.prompt for one in variants)


def test_a_structure_stays_and_so_does_what_is_not_varied() -> None:
    composed = load("composed/train", limit=20)
    for one in composed:
        found = family(one, 2)
        assert {found.problem.structure} == {each.structure for each in found.variants} == {one.structure}
        assert all(each.tests == one.tests for each in found.variants if each.entry_point == one.entry_point)
    bare = Problem("q", "x", (StdioTest("1", "1"),))
    assert family(bare, 3).variants == []
    assert family(bare, 3).problem == bare


@pytest.mark.parametrize(
    "prompt",
    [
        PROMPT.replace("Return", "The first argument is an amount. Return"),
        PROMPT.replace("amount: int, part: int", "amount: int, part: int = 0"),
        PROMPT.replace("(5, (1 + 1))", "(5, part=2)"),
    ],
)
def test_parameters_that_words_or_calls_place_stay_in_order(prompt: str) -> None:
    reference = REFERENCE.replace("part: int)", "part: int = 0)") if "= 0" in prompt else REFERENCE
    problem = Problem("p", prompt, (CallTest.of([5, 2], 3),), "take_away", (reference,))
    for one in family(problem, 12).variants:
        assert one.tests == problem.tests


def test_a_function_that_is_handed_on_keeps_its_order() -> None:
    reference = f"{REFERENCE}\n\nALL = [take_away]\n"
    problem = Problem("p", PROMPT, (CallTest.of([5, 2], 3),), "take_away", (reference,))
    for one in family(problem, 12).variants:
        assert one.tests == problem.tests


def test_a_name_that_is_a_word_is_changed_in_code_alone() -> None:
    reference = "def total(a):\n    total = sum(a)\n    return total\n"
    prose = Problem(
        "p", "Write a function total that gives the total of a.", (CallTest.of([[1]], 1),), "total", (reference,)
    )
    assert {one.entry_point for one in family(prose, 6).variants} <= {"total"}
    code = Problem("p", "Write a function `total` that sums up.", (CallTest.of([[1]], 1),), "total", (reference,))
    renamed = [one for one in family(code, 6).variants if one.entry_point != "total"]
    assert renamed
    for one in renamed:
        assert f"`{one.entry_point}`" in one.prompt
        assert f"def {one.entry_point}(" in one.references[0]
