"""Is a value the expected one? Asked outside the graded process, about plain values."""

import math
from collections.abc import Iterable

_NUMBERS = (int, float, complex)


def matches(got: object, expected: object, tolerance: float = 1e-6) -> bool:
    """As Python's == (so True equals 1, and a tuple is no list), with two allowances.

    Where either side is a float or complex, numbers may differ by `tolerance`, absolute or relative to the larger
    (math.isclose); this also holds inside containers. NaN matches NaN. Both values come from literals or from the
    cage's codec, so both are finite trees.
    """
    if isinstance(got, _NUMBERS) and isinstance(expected, _NUMBERS):
        return _close(got, expected, tolerance)
    if isinstance(expected, list | tuple):
        return (
            type(got) is type(expected)
            and len(got) == len(expected)
            and all(matches(mine, theirs, tolerance) for mine, theirs in zip(got, expected, strict=True))
        )
    if isinstance(expected, dict):
        return isinstance(got, dict) and _same_dict(got, expected, tolerance)
    if isinstance(expected, set | frozenset):
        return isinstance(got, set | frozenset) and _same_set(got, expected, tolerance)
    return bool(got == expected)


def tokens_match(got: str, expected: str) -> bool:
    """Printed text: the same whitespace-separated tokens in the same order."""
    return got.split() == expected.split()


def _close(got: int | float | complex, expected: int | float | complex, tolerance: float) -> bool:
    if isinstance(got, int) and isinstance(expected, int):
        return got == expected
    try:
        if isinstance(got, complex) or isinstance(expected, complex):
            mine, theirs = complex(got), complex(expected)
            return _close(mine.real, theirs.real, tolerance) and _close(mine.imag, theirs.imag, tolerance)
        if math.isnan(got) or math.isnan(expected):
            return math.isnan(got) and math.isnan(expected)
        return math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:
        return False  # an int beyond the floats is close to none of them


def _same_dict(got: dict[object, object], expected: dict[object, object], tolerance: float) -> bool:
    if len(got) != len(expected):
        return False
    return all(key in got and matches(got[key], value, tolerance) for key, value in expected.items())


def _same_set(got: Iterable[object], expected: Iterable[object], tolerance: float) -> bool:
    mine, theirs = set(got), set(expected)
    if mine == theirs:
        return True
    mine, theirs = mine - theirs, theirs - mine
    if len(mine) != len(theirs) or not all(isinstance(item, int | float) for item in mine | theirs):
        return False
    pairs = zip(sorted(mine, key=_real), sorted(theirs, key=_real), strict=True)
    return all(matches(one, other, tolerance) for one, other in pairs)


def _real(item: object) -> float:
    assert isinstance(item, int | float)
    try:
        number = float(item)
    except OverflowError:
        return math.inf if item > 0 else -math.inf
    return math.inf if math.isnan(number) else number
