"""Is a value the expected one? Asked outside the graded process, about plain values."""

import math
from collections import defaultdict
from collections.abc import Sequence, Set

_NUMBERS = (int, float, complex)


_MOST_PAIRED = 256


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


def matches_unordered(got: object, expected: object, tolerance: float = 1e-6) -> bool:
    """As `matches`, but the elements of a list or tuple may come in any order; those inside of them may not."""
    if not isinstance(expected, list | tuple) or not isinstance(got, list | tuple):
        return matches(got, expected, tolerance)
    return type(got) is type(expected) and _same_elements(got, expected, tolerance)


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


def _same_set(got: Set[object], expected: Set[object], tolerance: float) -> bool:
    return got == expected or _same_elements(tuple(got - expected), tuple(expected - got), tolerance)


def _same_elements(got: Sequence[object], expected: Sequence[object], tolerance: float) -> bool:
    """Whether each of `expected` has one of `got` for itself.

    Most are found by their text. The others are within a tolerance or wrong: numbers are paired in their order, which
    is exact; of anything else at most 256 are paired with each other.
    """
    if len(got) != len(expected):
        return False
    left: dict[str, list[object]] = defaultdict(list)
    for item in expected:
        left[_text(item)].append(item)
    mine = []
    for item in got:
        same = left.get(_text(item))
        if same and matches(item, same[-1], tolerance):
            same.pop()
        else:
            mine.append(item)
    theirs = [item for items in left.values() for item in items]
    if len(mine) != len(theirs):
        return False
    if all(isinstance(item, int | float) for item in [*mine, *theirs]):
        pairs = zip(sorted(mine, key=_real), sorted(theirs, key=_real), strict=True)
        return all(matches(one, other, tolerance) for one, other in pairs)
    return len(mine) <= _MOST_PAIRED and _paired(mine, theirs, tolerance)


def _text(item: object) -> str:
    try:
        return repr(item)
    except (ValueError, RecursionError):  # an integer with more digits than Python prints
        return ""


def _paired(mine: Sequence[object], theirs: Sequence[object], tolerance: float) -> bool:
    """A perfect matching, by augmenting paths: what fits two may have to leave one of them to another."""
    fits = [[i for i, other in enumerate(theirs) if matches(item, other, tolerance)] for item in mine]
    owner: dict[int, int] = {}

    def place(item: int, seen: set[int]) -> bool:
        for i in fits[item]:
            if i not in seen:
                seen.add(i)
                if i not in owner or place(owner[i], seen):
                    owner[i] = item
                    return True
        return False

    return all(place(item, set()) for item in range(len(mine)))


def _real(item: object) -> float:
    assert isinstance(item, int | float)
    try:
        number = float(item)
    except OverflowError:
        return math.inf if item > 0 else -math.inf
    return math.inf if math.isnan(number) else number
