"""Which test code is nothing but asserted calls, and whether what came of them is what the code would say."""

import ast
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_service.cage.wire import codec
from sandbox_service.domain.asserted import as_tested, read, same, truth
from sandbox_service.domain.jobs import CheckVerdict, End, Oversized, Raised, Report, Returned, Stage
from sandbox_service.domain.program import Asserted, Relation

ENDED = Report(End.EXITED, 0, Stage.ENDED, timedelta(seconds=0.1), timedelta(seconds=0.2), ("scripted",))
ONE_AND_TWO = (Asserted((1,), 2, message="first"), Asserted((2,), 3))


def found(code: str, entry_point: str = "f") -> tuple[Asserted, ...]:
    return read(ast.parse(code), entry_point)


def test_calls_are_in_the_order_in_which_they_would_run() -> None:
    code = '''"""Words."""
METADATA = {"author": "x"}
def test_more():
    assert candidate([1, -2.5], {"a": (None, b"b")}) == {3}
def check(c):
    "words"
    assert True, "prints"
    assert c() == [], "empty"
    assert f(2) == "two"
assert f(1) == 2, 7
'''
    assert found(code) == (
        Asserted((1,), 2, message="7"),
        Asserted((), [], message="empty"),
        Asserted((2,), "two"),
        Asserted(([1, -2.5], {"a": (None, b"b")}), {3}),
    )


def test_other_relations_and_what_the_compiler_computes() -> None:
    code = """assert f(3 * 19) == [3 - 5, "a" + "b"]
assert f(1)
assert not f(2), "no"
assert f(3) is True
assert f(4) is None
"""
    assert found(code) == (
        Asserted((57,), [-2, "ab"]),
        Asserted((1,), True, Relation.TRUTH),
        Asserted((2,), False, Relation.TRUTH, "no"),
        Asserted((3,), True, Relation.IS),
        Asserted((4,), None, Relation.IS),
    )


@pytest.mark.parametrize(
    "code",
    [
        "import math\nassert f(1) == 2",
        "f = print\nassert f(1) == 2",
        "F = 1\nassert f(x) == 2",
        "assert f(1) == g(1)",
        "assert f(1) != 2",
        "assert f(1) == 2 == 3",
        "assert g(1) == 2",
        "assert f(x=1) == 2",
        "assert f(*[1]) == 2",
        "assert f(1)(2) == 2",
        "assert f(...) == 2",
        "assert f(1) == 1 << 1",
        "assert f(1) == 1.5 * 9999999999",
        "assert f(1) == 'a' * 3",
        "assert f(1) == 1 / 0",
        "assert f(1) is 2",
        "assert f(1) is not None",
        "assert f(1) and f(2)",
        "assert not g(1)",
        "assert f(1) == f'{2}'",
        "assert f({1.5}) == 2",
        f"assert f({'[' * 40}{']' * 40}) == 2",
        "assert False\nassert f(1) == 2",
        "for x in (1, 2):\n    assert f(x) == x",
        "def check(candidate):\n    x = candidate(1)\n    assert x == 2",
        "def check(candidate, more):\n    assert candidate(1) == 2",
        "def check(candidate=print):\n    assert candidate(1) == 2",
        "def check(candidate: missing):\n    assert candidate(1) == 2",
        "def test_a(x):\n    assert f(x) == 2",
        "@skip\ndef test_a():\n    assert f(1) == 2",
        "def helper():\n    assert f(1) == 2",
        "def test_a():\n    assert f(1) == 2\ndef test_a():\n    assert f(2) == 2",
        "class TestA:\n    def test_a(self):\n        assert f(1) == 2",
        "async def test_a():\n    assert f(1) == 2",
        "def test_a():\n    return\n    assert f(1) == 2",
        "pytestmark = 1\nassert f(1) == 2",
        "def f(x):\n    return 2\nassert f(1) == 2",
    ],
)
def test_code_that_does_anything_else_is_run(code: str) -> None:
    assert found(code) == ()


def test_a_name_in_capitals_may_be_the_programs() -> None:
    assert found("F = 1\nassert F(1) == 2", "F") == ()
    assert found("assert Solution(1) == 2", "Solution.f") == ()
    assert found("assert candidate(1) == 2", "Solution.f") == (Asserted((1,), 2),)


def seen_of(*answers: Any, end: End = End.EXITED) -> Report | None:
    found = [one if isinstance(one, Raised | Oversized) else Returned(one) for one in answers]
    return as_tested(ONE_AND_TWO, replace(ENDED, answers=tuple(found), end=end))


def said(report: Report | None) -> tuple[str, str] | None:
    if report is None:
        return None
    assert report.tester
    return report.tester.verdict.value, report.tester.detail


def test_what_the_code_would_have_said() -> None:
    assert said(seen_of(2, 3)) == (CheckVerdict.PASSED, "")
    assert said(seen_of(5, 3)) == (CheckVerdict.FAILED, "AssertionError: first")
    assert said(seen_of(2, 5)) == (CheckVerdict.FAILED, "AssertionError")
    assert said(seen_of(2, Raised("KeyError", "'a'"))) == (CheckVerdict.RAISED, "KeyError: 'a'")
    assert said(seen_of(2)) == (CheckVerdict.GONE, "")
    assert said(seen_of()) == (CheckVerdict.GONE, "")


def test_what_came_after_the_end_of_the_code_does_not_count() -> None:
    late = seen_of(5, end=End.CPU)
    assert late
    assert (said(late), late.end) == ((CheckVerdict.FAILED, "AssertionError: first"), End.EXITED)
    assert said(seen_of(5, {"o": ["A", "a"]})) == (CheckVerdict.FAILED, "AssertionError: first")


def test_what_is_no_plain_value_is_for_the_code_to_judge() -> None:
    assert seen_of(2, {"o": ["A", "a"]}) is None
    assert seen_of({"o": ["A", "a"]}, 5) is None
    assert seen_of(2, Oversized(1)) is None


def test_a_limit_or_more_answers_than_calls_is_no_pass() -> None:
    late, more = seen_of(2, end=End.CPU), seen_of(2, 3, 4)
    assert late
    assert late.end is End.CPU
    assert more
    assert more.malformed


plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=3),
        st.binary(max_size=3), st.complex_numbers(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, True, "", b""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.integers(-2, 2), st.text(max_size=1), st.booleans()), inner, max_size=3),
        st.sets(st.one_of(st.integers(-2, 2), st.text(max_size=1)), max_size=3),
    ),
    max_leaves=6,
)  # fmt: skip


def test_no_nan_is_another() -> None:
    """In a list an object is equal to itself, also where that is NaN: each that crosses is one of its own."""
    for nan in (float("nan"), [float("nan")]):
        assert not same(codec.encode(nan), nan)
        assert codec.loads(codec.dumps(nan)) != codec.loads(codec.dumps(nan))


@given(plain, plain)
def test_it_is_what_python_says(got: Any, expected: Any) -> None:
    for one, other in ((got, expected), (got, codec.loads(codec.dumps(got)))):
        assert same(codec.encode(one), other) == (codec.loads(codec.dumps(one)) == other)


@given(plain)
def test_truth_is_what_python_says(got: Any) -> None:
    assert truth(codec.encode(got)) is bool(got)


def test_who_is_who() -> None:
    for one, got, holds in (
        (True, True, True),
        (True, 1, False),
        (None, None, True),
        (None, 0, False),
        (False, [], False),
    ):
        report = replace(ENDED, answers=(Returned(got),))
        seen = said(as_tested([Asserted((), one, Relation.IS)], report))
        assert seen == ((CheckVerdict.PASSED, "") if holds else (CheckVerdict.FAILED, "AssertionError"))
    assert as_tested([Asserted((), None, Relation.IS)], replace(ENDED, answers=(Returned({"o": ["A", "a"]}),))) is None
    assert as_tested([Asserted((), True, Relation.TRUTH)], replace(ENDED, answers=(Returned({"f": [1]}),))) is None


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ({"o": ["A", "a"]}, 1), ([{"o": ["A", "a"]}], [1]), ({"t": [{"l": ["Counter", []]}]}, (1,)),
        ({"d": [[1, {"o": ["A", "a"]}]]}, {1: 1}), ({"d": [[{"t": [1]}, 1]]}, {1: 1}), ({"s": [{"t": [1]}]}, {1}),
        ({"f": [1]}, {1}),
    ],
)  # fmt: skip
def test_of_anything_else_it_is_not_known(got: Any, expected: Any) -> None:
    assert same(got, expected) is None


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ([1, {"o": ["A", "a"]}], [1]), ([2, {"o": ["A", "a"]}], [1, 2]), ([{"o": ["A", "a"]}], (1,)),
        ({"d": [[1, 1], [1, 1]]}, {1: 1, 2: 1}), ({"s": [1, 1]}, {1, 2}), ({"t": [1]}, [1]), ([1], (1,)),
    ],
)  # fmt: skip
def test_what_differs_before_that_differs(got: Any, expected: Any) -> None:
    assert same(got, expected) is False
