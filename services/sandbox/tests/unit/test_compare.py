import gc
import json
import time
from array import array
from collections import Counter, OrderedDict, UserList, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_service.cage.wire import codec, library
from sandbox_service.domain import compare, forms, shown
from sandbox_service.domain.compare import Tolerance, tokens_match

INF, NAN = float("inf"), float("nan")
OPAQUE = codec.Opaque("X", "x")


def form(value: object) -> Any:
    """As it comes from a program."""
    return forms.checked(json.loads(json.dumps(runner_form(value))))


def runner_form(value: object) -> object:
    return codec.encode(value, _rare)


def _rare(value: object, depth: int) -> object:
    return {"o": ["X", "x"]} if value is OPAQUE else library.form(value, runner_form)


def matches(got: object, expected: object, tolerance: Tolerance = compare.DEFAULT) -> bool:
    return compare.matches(form(got), form(expected), tolerance)


def matches_unordered(got: object, expected: object, tolerance: Tolerance = compare.DEFAULT) -> bool:
    return compare.matches_unordered(form(got), form(expected), tolerance)


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
        ([1, [2.0000001]], [1, [2.0]]),
        ((1, 2), (1, 2)),
        ({1: 2.0000001}, {1: 2.0}),
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
        (OPAQUE, 1),
        (OPAQUE, OPAQUE),
        ([OPAQUE], [1]),
        (1, OPAQUE),
        (10**16, 10**16 + 1),
    ],
)
def test_not_the_same(got: object, expected: object) -> None:
    assert not matches(got, expected)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (6765.000029563936, 6765),
        (2.0000001, 2),
        (2.8800671943708247e18, 2880067194370816120),
        (1e-7, False),
        (1e-7, 0),
        (0.0, 1e-7),
        (1e-7, 0.0),
        (0, 6.6e-34),
        (2e-34, 6.6e-34),
        (True, 1.0000001),
        ("1", 1),
        (1 + 1e-9j, 1),
        (Fraction(1, 3), 0),
        (Decimal("1e-30"), 0),
        (Decimal("sNaN"), 1),
        ("a" * 5, "a" * 6),
        ({1.0000001: 2}, {1: 2}),
    ],
)
def test_integers_bools_and_strings_are_exact_and_small_numbers_are_no_zero(got: object, expected: object) -> None:
    assert not matches(got, expected)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (0.1 + 0.2 - 0.3, 0.0),
        (6.6e-34, 6.6000001e-34),
        (6765, 6765.0),
        (Fraction(6, 3), 2),
        (Decimal("2.00"), 2),
        (Fraction(1, 3), 0.3333333333333333),
        (Decimal("1e3000"), 10**3000),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (MappingProxyType({1: 2}), {1: 2}),
        ({1: 2}.keys(), {1}),
        ({1: 2}.items(), {(1, 2)}),
        (namedtuple("P", "x y")(1, 2), (1, 2)),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (UserList([1]), [1]),
        ({1, 2.0, 3 + 0j}, {1, 2, 3}),
        ({True: "a"}, {1: "a"}),
        ({Decimal(1): 2}, {1: 2}),
        ({frozenset({1}): 2}, {frozenset({1.0}): 2}),
    ],
)
def test_equal_as_in_python(got: object, expected: object) -> None:
    assert matches(got, expected)


@pytest.mark.parametrize(
    "got",
    [range(3), deque([0, 1, 2]), array("i", [0, 1, 2]), {0: 0, 1: 1, 2: 2}.values(), (0, 1, 2), iter([0, 1, 2])],
)
def test_no_list_in_python(got: object) -> None:
    assert not matches(got, [0, 1, 2])


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 3)
    | st.fractions()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.5, 1.0, -2.0, 1 + 0j, Fraction(1, 2), Decimal("0.5"), Decimal("1.0")])
    | st.text(max_size=3)
    | st.binary(max_size=2)
)
hashables = st.recursive(scalars, lambda one: st.tuples(one, one) | st.frozensets(one, max_size=3), max_leaves=5)
values = st.recursive(
    hashables,
    lambda one: (
        st.lists(one, max_size=3)
        | st.dictionaries(hashables, one, max_size=3)
        | st.sets(hashables, max_size=3)
        | st.tuples(one)
    ),
    max_leaves=10,
)


@given(values, values)
def test_exact_comparison_is_pythons(one: object, other: object) -> None:
    exact = Tolerance(0.0, 0.0)
    assert matches(one, one, exact)
    assert matches(one, other, exact) is (one == other)
    assert (forms.key(form(one)) == forms.key(form(other))) is (one == other)


P = 2**61 - 1
SAME_HASH = [{"i": hex(P * k)} for k in range(1, 10_000)]


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ({"s": SAME_HASH}, {"s": [1]}),
        ({"s": SAME_HASH}, {"s": [*SAME_HASH[1:], 5]}),
        ({"d": [[one, 1] for one in SAME_HASH]}, {"d": [[1, 1]]}),
        ([{"s": SAME_HASH}], [{"s": SAME_HASH[::-1]}]),
        ({"l": ["Decimal", "1e999999999999"]}, 1),
        ({"l": ["Decimal", "1" * 500_000]}, 1),
        ({"l": ["Fraction", {"i": "f" * 500_000}, {"i": "e" * 500_000}]}, 0.5),
        ({"i": "f" * 1_000_000}, 5),
        ({"s": [{"l": ["Decimal", f"{k}e99999"]} for k in range(1000)]}, {"s": [1]}),
        ([[1.5] * 600 + [k] for k in range(250)], [[1.5] * 600 + [k + 0.5] for k in range(250)]),
        ([[k, 0.5] for k in range(20_000)], [[k, 0.5000001] for k in range(20_000)]),
        ({"d": [[k + 0.5, 1] for k in range(20_000)]}, {"d": [[k + 0.5000001, 2] for k in range(20_000)]}),
        ({"d": [[[k, 0.5], 1] for k in range(20_000)]}, {"d": [[[k, 0.6], 1] for k in range(20_000)]}),
        ({"d": [[1 + k * 1e-9, k] for k in range(200)]}, {"d": [[1 + k * 1e-9 + 5e-10, 200] for k in range(200)]}),
    ],
)
def test_what_a_program_sends_costs_no_more_than_its_size(got: Any, expected: Any) -> None:
    gc.freeze()  # otherwise a collection goes through all that a test process of 20 minutes has made, for seconds
    began = time.process_time()
    compare.matches(forms.checked(got), expected)
    compare.matches_unordered(forms.checked(got), expected)
    shown.text(got, 1024)
    took = time.process_time() - began
    gc.unfreeze()
    assert took < 2.0


def test_tolerance_is_absolute_and_relative() -> None:
    assert matches(0.05, 0.0, Tolerance(0.1, 0.1))
    assert matches(105.0, 100.0, Tolerance(0.1, 0.1))
    assert not matches(0.2, 0.0, Tolerance(0.1, 0.1))


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
    stated = Tolerance(1e-6, 1e-6)
    assert matches_unordered([(0.8e-6,), (-0.5e-6,)], pairs, stated)
    assert matches_unordered([(-0.5e-6,), (0.8e-6,)], pairs, stated)


def test_a_set_of_pairs_has_a_tolerance() -> None:
    assert matches({(0.1 + 0.2, 1), (2, 2)}, {(0.3, 1), (2, 2)})


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ({0.1 + 0.2: 1}, {0.3: 1}, True),
        ({(0.1 + 0.2, "a"): 0.1 + 0.2, "b": 1}, {(0.3, "a"): 0.3, "b": 1}, True),
        ({0.1: "a", 0.1 + 1e-9: "b"}, {0.1 + 2e-9: "b", 0.1 + 3e-9: "a"}, True),
        ({k + 0.1 + 0.2: k for k in range(2000)}, {k + 0.3: k for k in range(2000)}, True),
        (Counter({0.1 + 0.2: 2}), {0.3: 2}, True),
        ({1: "a"}, {1.0000001: "a"}, True),
        ({0.1 + 0.2: 1}, {0.3: 2}, False),
        ({0.31: 1}, {0.3: 1}, False),
        ({1.0000001: "a"}, {1: "a"}, False),
        ({True: "a"}, {1.0000001: "a"}, False),
        ({0.3: 1, 0.1 + 0.2: 2}, {0.3: 2, 0.1 + 0.2: 1}, False),  # equal keys are one another's
        ({0.1 + 0.2: 1, 0.3: 1}, {0.3: 1}, False),
        ({0.3: 1}, {0.3: 1, 0.1 + 0.2: 1}, False),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_keys_have_a_tolerance(got: object, expected: object, same: bool) -> None:
    assert matches(got, expected) is same
    assert matches([got], [expected]) is same
    assert not matches(got, expected, Tolerance(0.0, 0.0)) or got == expected


def test_tokens() -> None:
    assert tokens_match(" 1  2\n3\n", "1 2 3")
    assert not tokens_match("1 2", "1 2 3")
    assert not tokens_match("12", "1 2")
    assert tokens_match("", "\n")
    assert not tokens_match("0.50", "0.5")


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("0.50", "0.5"),
        ("1", "1.0000000"),
        ("yes 0.3333333333", "yes 0.33333334"),
        ("1000000.5", "1000000.0"),
        ("-0.0000005", "0.0"),
        ("1e3", "1000.0001"),
        (".5", "5e-1"),
    ],
)
def test_tokens_within_a_tolerance(got: str, expected: str) -> None:
    assert tokens_match(got, expected, 1e-6)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("1000001", "1000000"),
        ("2.0", "2"),
        ("1.0000021", "1.0"),
        ("0.5 0.5", "0.5"),
        ("nan", "0.5"),
        ("inf", "1e999"),
        ("0x1.8p1", "3.0"),
        ("1_0.0", "10.0"),
        ("٣.0", "3.0"),
        ("Yes", "yes"),
        ("0.3" + "3" * 500, "0.33333333333"),
    ],
)
def test_tokens_beyond_a_tolerance(got: str, expected: str) -> None:
    assert not tokens_match(got, expected, 1e-6)


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=4) | st.just("0x1f"),
    lambda one: (
        st.lists(one, max_size=3)
        | st.builds(lambda tag, body: {tag: body}, st.sampled_from("tdisfbcol"), one)
        | st.builds(
            lambda name, parts: {"l": [name, *parts]},
            st.sampled_from([*forms.BASES, "Decimal", "Fraction"]),
            st.lists(one, max_size=3),
        )
        | st.builds(lambda one, other: {"c": [one, other]}, one, one)
    ),
    max_leaves=15,
)


@settings(deadline=None)
@given(any_json, any_json)
def test_what_was_checked_is_compared_and_shown(one: object, other: object) -> None:
    known = []
    for value in (one, other):
        try:
            known.append(forms.checked(value))
        except (ValueError, TypeError, LookupError, OverflowError):  # what the reader of frames takes for tampering
            return
    for got, expected in (known, known[::-1], (known[0], form([1, 2.0, {"a"}]))):
        compare.matches(got, expected)
        compare.matches_unordered(got, expected)
        compare.matches([got], [expected])
        shown.text(got, 100)


@pytest.mark.parametrize("shift", [0.0, 1e-9], ids=["all fit all", "all but one fit all"])
def test_pairs_within_a_tolerance_are_found_in_time(shift: float) -> None:
    """What fits nearly everything is the worst for a search."""
    count = 316
    got = [[1.0 + i * 1e-12] for i in range(count)]
    expected = [[1.0 - i * 1e-12] for i in range(count - 1)] + [[1.0 + shift * 1e4]]
    before = time.process_time()
    assert compare.matches_unordered(form(got), form(expected)) is (shift == 0)
    assert time.process_time() - before < 2
