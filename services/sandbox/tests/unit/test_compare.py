import pytest

from sandbox_service.cage.codec import Opaque
from sandbox_service.domain.compare import matches, matches_unordered, tokens_match

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (1, 1),
        (True, 1),
        (1, True),
        (1.0, 1),
        (1, 1.0),
        (0.1 + 0.2, 0.3),
        (1e12 + 1, 1e12),
        (INF, INF),
        (NAN, NAN),
        (1j, 1j),
        (1 + 1e-9, 1j + 1 - 1j),
        ("a", "a"),
        (None, None),
        ([1, [2.0000001]], [1, [2]]),
        ((1, 2), (1, 2)),
        ({1: 2.0000001}, {1: 2}),
        ({1, 2}, {2, 1}),
        (frozenset({1}), {1}),
        ({0.1 + 0.2}, {0.3}),
        ([], []),
        (b"a", b"a"),
        (10**400, 10**400),
        ([NAN], [NAN]),
        ({"a": [(1, {2})]}, {"a": [(1, {2})]}),
    ],
)
def test_the_same(got: object, expected: object) -> None:
    assert matches(got, expected)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (1, 2),
        (1, "1"),
        ("1", 1),
        (None, 0),
        (0, None),
        ([1], (1,)),
        ((1,), [1]),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ([2, 1], [1, 2]),
        ({1: 2}, {1: 3}),
        ({1: 2}, {2: 2}),
        ({1: 2, 3: 4}, {1: 2}),
        ({1}, {2}),
        ({1}, [1]),
        ([1], {1}),
        (1.001, 1.0),
        (NAN, 1.0),
        (1.0, NAN),
        (INF, -INF),
        (1e308, INF),
        (10**400, 1.0),
        (1.0, 10**400),
        (10**400, INF),
        (1j, 1),
        ("a", b"a"),
        ({0.3, 1}, {0.3, 2}),
        ({"a"}, {"b"}),
        (Opaque("X", "x"), 1),
        (Opaque("X", "x"), Opaque("X", "x")),
        ([Opaque("X", "x")], [1]),
        (1, Opaque("X", "x")),
        (10**16, 10**16 + 1),
    ],
)
def test_not_the_same(got: object, expected: object) -> None:
    assert not matches(got, expected)


def test_tolerance_is_absolute_and_relative() -> None:
    assert matches(0.05, 0.0, tolerance=0.1)
    assert matches(105.0, 100.0, tolerance=0.1)
    assert not matches(0.2, 0.0, tolerance=0.1)


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ([3, 1, 2], [1, 2, 3], True),
        ([3, 1, 2, 2], [1, 2, 3, 3], False),
        ([1, 2], [1, 2, 2], False),
        ((1, 2), [2, 1], False),
        ([[1, 2], [3]], [[3], [1, 2]], True),
        ([[2, 1]], [[1, 2]], False),
        ([0.1 + 0.2, 1], [1, 0.3], True),
        ([(0.1 + 0.2, "a"), ("b",)], [("b",), (0.3, "a")], True),
        ([1.0, True], [1, 1], True),
        ([float("nan"), 1], [1, float("nan")], True),
        ([{"a": 1}, {2}], [{2}, {"a": 1}], True),
        ([10**5000, 1], [1, 10**5000], True),
        ([10**5000, 1], [1, 10**5000 + 1], False),
        (3, 3, True),
        ([], [], True),
    ],
)
def test_in_any_order(got: object, expected: object, same: bool) -> None:
    assert matches_unordered(got, expected) is same


def test_what_fits_two_leaves_one_to_another() -> None:
    pairs = [(0.0,), (1.5e-6,)]  # the first of the others fits both, the second only one
    assert matches_unordered([(0.8e-6,), (-0.5e-6,)], pairs)
    assert matches_unordered([(-0.5e-6,), (0.8e-6,)], pairs)


def test_a_set_of_pairs_has_a_tolerance() -> None:
    assert matches({(0.1 + 0.2, 1), (2, 2)}, {(0.3, 1), (2, 2)})


def test_tokens() -> None:
    assert tokens_match(" 1  2\n3\n", "1 2 3")
    assert not tokens_match("1 2", "1 2 3")
    assert not tokens_match("12", "1 2")
    assert tokens_match("", "\n")
