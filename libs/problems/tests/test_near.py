"""Near-duplicates: what is the same but for names and words is found, and what only looks alike is not."""

import io
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from ratchet_kit.errors import DataLoss
from ratchet_problems import AnswerTest, CallTest, CheckTest, Message, Problem, load
from ratchet_problems.near.search import Known, duplicates, matches
from ratchet_problems.near.sketches import Sketches, shared_out, sketch

PROMPT = "Write a function to find the longest run of equal neighbours in a given list of integers. It may be empty."
SOLUTION = """\
def longest_run(values):
    best = current = 0
    for place, value in enumerate(values):
        current = current + 1 if place and values[place - 1] == value else 1
        best = max(best, current)
    return best if len(values) > 1 else len(values)
"""
CASES = """\
assert longest_run([1, 1, 2, 2, 2]) == 3
assert longest_run([4, 5]) == 1
assert longest_run([7, 7, 7, 7, 1]) == 4
"""
OTHER = "Write a function to convert a temperature in degrees of Celsius to Fahrenheit, rounded to one place."


def problem(
    id: str = "mine", prompt: str = PROMPT, reference: str = SOLUTION, tests: str = CASES, structure: str = ""
) -> Problem:
    references = (reference,) if reference else ()
    return Problem(id, prompt, (CheckTest(tests),) if tests else (), references=references, structure=structure)


KNOWN = Known(
    sketch([problem("original"), problem("other", OTHER, "def f(c):\n    return round(c * 1.8 + 32, 1)\n", "")])
)


def found(*problems: Problem) -> list[str]:
    sketches = sketch(problems)
    return [KNOWN.sketches.ids[match.other] for match in KNOWN.matches(sketches)]


def test_large_sets_are_searched_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    many = sketch(
        [problem("first"), problem("other", OTHER, "", "assert f(1) == 2"), problem("again"), problem("third")]
    )
    few = sketch([problem("x", OTHER, "", "assert f(1) == 2"), problem("y")])
    wanted = {("x", "other"), ("y", "first"), ("y", "again"), ("y", "third")}
    for at_once in (1, 2, 10):
        monkeypatch.setattr("ratchet_problems.near.search._KNOWN_AT_ONCE", at_once)
        assert {(few.ids[it.row], many.ids[it.other]) for it in matches(many, few)} == wanted
        assert {(few.ids[it.other], many.ids[it.row]) for it in matches(few, many)} == wanted


def test_many_problems_of_one_key_are_not_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet_problems.near.search._MOST_OF_A_KEY", 2)
    found = list(matches(sketch([problem(str(place)) for place in range(4)]), sketch([problem() for _ in range(5)])))
    assert {(it.row, it.other) for it in found} == {(row, other) for row in range(5) for other in range(2)}


def test_a_renamed_problem_is_the_same() -> None:
    renamed = SOLUTION.replace("longest_run", "f").replace("values", "xs").replace("current", "n").replace("best", "b")
    assert found(problem(prompt="Solve it.", reference=renamed, tests="")) == ["original"]
    assert found(problem(prompt="Solve it.", reference="", tests=CASES.replace("longest_run", "f"))) == ["original"]


def test_a_prompt_in_other_words_is_the_same() -> None:
    other = "It may be blank. Implement a routine that locates the longest run of identical neighbours in an array."
    assert found(problem(prompt=other, reference="", tests="assert f(1) == 2")) == ["original"]


def test_what_a_conversation_says_is_compared() -> None:
    said = (Message("system", "You are a terse engineer."), Message("user", PROMPT), Message("assistant", "In Python?"))
    asked = Problem("mine", "Yes.", (CheckTest("assert f(1) == 2"),), conversation=said)
    assert found(asked) == ["original"]


def test_tests_of_another_form_are_the_same() -> None:
    calls = (CallTest("[[1, 1, 2, 2, 2]]", "3"), CallTest("[[4, 5]]", "1"), CallTest("[[7, 7, 7, 7, 1]]", "4"))
    runs = Problem("mine", "How long are runs of equal neighbours?", calls, "f")
    assert found(runs) == ["original"]


STORY = "Tom has {} apples and buys {} more at the market on Friday. How many apples does Tom have now, all in all?"


def test_a_story_with_other_numbers_or_another_answer_is_another_problem() -> None:
    def story(first: int, second: int, text: str = STORY) -> Problem:
        return Problem(f"{first}+{second}", text.format(first, second), (AnswerTest((str(first + second),)),))

    known = Known(sketch([story(3, 4)]))
    reworded = "At the market Tom buys {} apples more on a Friday; before he has {}. How many does he now have in all?"
    others = [story(4, 3, reworded), story(2, 5), story(3, 5)]
    assert [match.row for match in known.matches(sketch(others))] == [0]


def test_another_problem_is_another() -> None:
    reference = "def f(values):\n    return sorted(set(values), key=lambda value: -value)[:3]\n"
    tests = "assert f([5, 1, 9, 9]) == [9, 5, 1]\nassert f([100, 20]) == [100, 20]"
    assert (
        found(problem(prompt="Find the three largest distinct numbers of a list.", reference=reference, tests=tests))
        == []
    )


def test_two_structures_are_two_problems() -> None:
    """Ratchet's own sets are made of one vocabulary; no structure is in two splits."""
    known = Known(sketch(load("composed/test")))
    assert list(known.matches(sketch(load("composed/train")[:500]))) == []
    assert found(problem(structure="one")) == ["original"]  # the other names none


def test_duplicates_of_a_set_are_told_with_the_earlier() -> None:
    set_ = [problem("a"), problem("b", OTHER, "", "assert f(1) == 33.8"), problem("c", PROMPT.replace("list", "array"))]
    assert [(match.row, match.other) for match in duplicates(sketch(set_))] == [(2, 0)]
    assert list(duplicates(sketch(set_[:2]))) == []


def test_problems_without_anything_to_compare_are_like_nothing() -> None:
    bare = [problem(id, "Solve it.", "def f(:", "") for id in "ab"]
    assert list(duplicates(sketch(bare))) == []
    assert found(*bare) == []
    assert list(duplicates(sketch([]))) == []


def test_a_helper_sketches_the_same() -> None:
    problems = load("composed/test")[:50]
    with ThreadPoolExecutor(1) as helper:
        assert written(sketch(problems, helper)) == written(sketch(problems))


def test_work_is_shared_out_by_who_is_free_and_comes_back_in_order() -> None:
    problems = [problem(str(place)) for place in range(4_000)]
    here, helped = threading.get_ident(), threading.Event()

    def work(some: Sequence[Problem]) -> tuple[str, bool]:
        is_here = threading.get_ident() == here
        if is_here:
            helped.set()
        else:
            assert helped.wait(20)  # the first that it gets takes until this side has done one
        return some[0].id, is_here

    with ThreadPoolExecutor(1) as helper:
        done = list(shared_out(work, iter(problems), helper))
    assert [one for some, _ in done for one in some] == problems
    assert [some[0].id for some, _ in done] == [first for _, (first, _) in done]
    assert {is_here for _, (_, is_here) in done} == {False, True}


def test_sketches_are_kept_as_bytes() -> None:
    kept = Sketches.read(io.BytesIO(written(KNOWN.sketches)))
    assert kept.ids == ["original", "other"]
    assert [(match.row, match.other) for match in KNOWN.matches(kept)] == [(0, 0), (1, 1)]
    assert len(Sketches.read(io.BytesIO(written(sketch([]))))) == 0
    for damaged in (b"", b"no sketches", written(KNOWN.sketches)[:900], written(KNOWN.sketches)[:-100]):
        with pytest.raises(DataLoss):
            Sketches.read(io.BytesIO(damaged))


def written(sketches: Sketches) -> bytes:
    file = io.BytesIO()
    sketches.write(file)
    return file.getvalue()
