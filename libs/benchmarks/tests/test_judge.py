"""EvalPlus' rules, one by one. What each is in EvalPlus: evalplus/eval/__init__.py, unsafe_execute."""

import json
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from ratchet_benchmarks.evalplus import judge, recording, rules


def right(got: Any, wanted: Any, tolerance: float = 0, rule: Callable[..., bool] | None = None, *given: Any) -> bool:
    try:
        judge.judge([got], [list(given)], [wanted], tolerance, rule, rule is rules.root)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("got", "wanted", "tolerance", "expected"),
    [
        (1, 1, 0, True),
        (True, 1, 0, True),
        (2.0, 2, 0, True),
        ([1], (1,), 0, False),
        (1.0000001, 1.0, 0, True),  # where a float is expected, 1e-6 and a relative 1e-7
        (1.00001, 1.0, 0, False),
        (1e9 + 50, 1e9, 0, True),
        (1e9 + 200, 1e9, 0, False),
        (1, 1.0000001, 0, False),  # close, and of another type
        ([1.0, 2.0], [1.0, 2.0000001], 0, True),
        ([1.0, [2.0]], [1.0, [2.0000001]], 0, False),  # only lists of floats alone
        ([1.0, [2.0]], [1.0, [2.0000001]], 1e-6, True),
        ((1.0,), [1.0], 1e-6, False),
        ([1.0], [1.0, 1.0], 1e-6, False),
        ("a", "b", 1e-6, False),
        (float("inf"), float("inf"), 0, True),
        (5.0, float("inf"), 0, False),
        (float("nan"), float("nan"), 0, False),
        (1e300, 1, 1e-6, False),
        (None, None, 0, True),
    ],
)
def test_answers(got: object, wanted: object, tolerance: float, expected: bool) -> None:
    assert right(got, wanted, tolerance) is expected


def test_the_tolerance_of_floats_stays_for_what_follows() -> None:
    judge.judge([1.0, [1, 2.0000001]], [[], []], [1.0, [1, 2.0]], 0)
    with pytest.raises(AssertionError):
        judge.judge([[1, 2.0000001]], [[]], [[1, 2.0]], 0)


@pytest.mark.parametrize(
    ("rule", "given", "got", "wanted", "expected"),
    [
        (rules.root, ([-4, 0, 1],), 2.0, -2.0, True),
        (rules.root, ([-4, 0, 1],), -1.99, -2.0, False),
        (rules.anything, (1, 2), "no", True, True),
        (rules.or_zero, (7,), 0, 1, True),
        (rules.or_zero, (7,), 2, 1, False),
        (rules.digits_apart, (1, 256), 12, 7, True),
        (rules.pyramid, (3, 4), 34, 33, False),
        (rules.pyramid, (3, 4), 35, 33, True),
        (rules.same_set, ((1,), (2,)), [2, 1, 1], (1, 2), True),
        (rules.same_set, ((1,), (2,)), [2], (1, 2), False),
        (rules.something, ("x",), "match", True, True),
        (rules.something, ("x",), None, True, False),
        (rules.something, ("x",), False, False, True),
    ],
)
def test_rules_of_tasks(
    rule: Callable[..., bool], given: tuple[Any, ...], got: Any, wanted: Any, expected: bool
) -> None:
    assert right(got, wanted, 1e-4 if rule is rules.root else 0, rule, *given) is expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1, 2.0, "x"], [1.0, 2, "x"], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": True + 1 - 1}, True),
        ((1,), [1], False),
        (["1"], [1], False),
        ("a,b", "a,c", False),
        (["a,1:b"], ["a", "b"], False),
        ({1, 2}, {2, 1}, True),
        (None, "None", False),
        (list(range(99)), [float(n) for n in range(99)], True),
        (list(range(99)), tuple(range(99)), False),
        ([-0.0] * 99, [0] * 99, True),
        ([2**60] * 99, [2.0**60] * 99, True),
        ([0.5] * 99, [0.5] * 98 + [0.25], False),
        ([1] * 99, [1] * 98 + ["1"], False),
    ],
)
def test_a_digest_is_the_same_for_what_is_equal(one: object, other: object, same: bool) -> None:
    assert (judge.digest(one) == judge.digest(other)) is same
    assert judge.equal(one, judge.Digest(judge.digest(other))) is same


def test_what_has_no_digest_equals_none() -> None:
    assert not judge.equal([float("nan")] * 99, judge.Digest(judge.digest([1] * 99)))
    assert not judge.equal(float("nan"), judge.Digest(judge.digest(1)))
    assert not judge.equal(object(), judge.Digest(judge.digest(1)))


def test_long_numbers_are_compared_and_never_shown() -> None:
    long = 10**5000
    assert judge.digest(long) != judge.digest(long + 1)
    assert right(long, long)
    assert not right(long, 1.0)
    with pytest.raises(AssertionError, match="a long int is not 1"):
        judge.judge([long], [[]], [1], 0)


@pytest.mark.parametrize(
    "answers",
    [
        [1, "a'\n", [1.5, None], {"a": True}],
        [(1, 2), {3}, 2j],
        [float("inf"), 10**999],
        ["x" * 999, ["y" * 999]],
        [Counter("ab"), [OrderedDict({(1, 2): Counter("a")})]],
    ],
)
def test_what_is_kept_is_read_back(answers: list[Any]) -> None:
    kept = [recording.marked(answer, judge.digest, judge.floats, 0, False) for answer in answers]
    text = recording.expression(kept)
    names = {"json": json, "unmarked": judge.unmarked, "Digest": judge.Digest, "inf": float("inf")}
    for answer, read in zip(answers, eval(text, names), strict=True):
        assert isinstance(read, judge.Digest) is (len(str(answer)) > 900)
        assert judge.equal(answer, read)


def test_what_is_too_large_to_cross_is_known() -> None:
    assert recording.fits([1.5] * 1_000_000)
    assert recording.fits("x" * 10_000_000)
    assert not recording.fits("x" * 20_000_000)
    assert not recording.fits([("ab",) * 77] * 100_000)
    assert not recording.fits({1: [1 << 200_000_000]})
