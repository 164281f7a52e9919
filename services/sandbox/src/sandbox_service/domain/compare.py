"""Is an answer the expected value? Asked outside the graded process, about the forms of values: see forms.py.

Time is n log n in the sizes of both, whatever the program sent.
"""

import cmath
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from sandbox_service.domain import forms
from sandbox_service.domain.forms import Form, Number

_MOST_WORK = 200_000
_MOST_STEPS = 2_000_000
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DECIMAL = re.compile(r"(?=.*[.eE])" + _NUMBER.pattern)
_LONGEST_NUMBER = 400
_LONG_TEXT = 1 << 20
_TOKEN = re.compile(r"\S+")
_PLAIN = {int, str, bool, type(None)}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a number may be from an expected float: `relative` to the larger of both, or `absolute`."""

    relative: float = 1e-6
    absolute: float = 0.0


# What is left of 0.1 + 0.2 - 0.3 passes for an expected 0.0; no small number passes for another.
_ROUNDING = 1e-12
DEFAULT = Tolerance()


def matches(got: Form, expected: Form, tolerance: Tolerance = DEFAULT) -> bool:
    """As Python's == (so True equals 1, a tuple is no list, a Counter equals a dict), with two allowances.

    Where a float or complex is expected, a number may be within the tolerance; this holds inside containers, too, and
    for what is rounding where 0.0 is expected. NaN matches NaN. Both forms are checked ones.
    """
    kind = type(expected)
    if kind is str or expected is None:
        return type(got) is kind and bool(got == expected)
    if kind is list:
        got = forms.base(got)
        if type(got) is not list or len(got) != len(expected):
            return False
        if got == expected and set(map(type, expected)) <= _PLAIN:
            return True
        return all(matches(mine, theirs, tolerance) for mine, theirs in zip(got, expected, strict=True))
    wanted = forms.number(expected)
    if wanted is not None:
        value = forms.number(got)
        return value is not None and _same_number(value, wanted, tolerance)
    if got is None or isinstance(got, int | float | str):
        return False
    return _same_tagged(forms.base(got), forms.base(expected), tolerance)


def _same_tagged(got: Form, expected: Form, tolerance: Tolerance) -> bool:
    if isinstance(got, list) or isinstance(expected, list):
        return isinstance(got, list) and isinstance(expected, list) and matches(got, expected, tolerance)
    (tag, mine), (other, theirs) = forms.tagged(got), forms.tagged(expected)
    if {tag, other} <= {"s", "f"}:
        return _same_elements(_distinct(mine), _distinct(theirs), tolerance)
    if tag != other or tag == "o":
        return False
    if tag == "t":
        return matches(mine, theirs, tolerance)
    if tag == "d":
        return _same_dict(mine, theirs, tolerance)
    if tag == "b":
        return bool(mine.lower() == theirs.lower())
    return mine[0] == theirs[0] and matches(mine[1:], theirs[1:], tolerance)


def matches_unordered(got: Form, expected: Form, tolerance: Tolerance = DEFAULT) -> bool:
    """As `matches`, but the elements of a list or tuple may come in any order; those inside of them may not."""
    mine, theirs = _elements(got), _elements(expected)
    if mine is None or theirs is None:
        return matches(got, expected, tolerance)
    return mine[0] == theirs[0] and _same_elements(mine[1], theirs[1], tolerance)


def _elements(form: Form) -> tuple[str, list[Form]] | None:
    form = forms.base(form)
    if isinstance(form, list):
        return "[", form
    if isinstance(form, dict) and "t" in form:
        return "t", form["t"]
    return None


def tokens_match(got: str, expected: str, tolerance: float | None = None) -> bool:
    """Printed text: the same whitespace-separated tokens in the same order. With a `tolerance` a number may stand for
    an expected decimal that is so near, absolute or relative; whole numbers and words are compared as text."""
    if got == expected:
        return True
    return all(
        mine == theirs or (tolerance is not None and _near(mine, theirs, tolerance))
        for mine, theirs in zip_longest(_tokens(got), _tokens(expected), fillvalue="")
    )


def _tokens(text: str) -> Iterable[str]:
    """Those of a long text one by one: a list of them takes many times its memory."""
    return text.split() if len(text) <= _LONG_TEXT else (found[0] for found in _TOKEN.finditer(text))


def _near(got: str, expected: str, tolerance: float) -> bool:
    if max(len(got), len(expected)) > _LONGEST_NUMBER or not _NUMBER.fullmatch(got) or not _DECIMAL.fullmatch(expected):
        return False
    return math.isclose(float(got), float(expected), rel_tol=tolerance, abs_tol=tolerance)


def _same_number(got: Number | tuple[int, int], expected: Number | tuple[int, int], tolerance: Tolerance) -> bool:
    if isinstance(expected, float | complex) and not isinstance(got, bool):
        return _close(got, expected, tolerance)
    if isinstance(got, tuple) or isinstance(expected, tuple):
        return forms.number_key(got) == forms.number_key(expected)
    return bool(got == expected)


def _close(got: Number | tuple[int, int], expected: float | complex, tolerance: Tolerance) -> bool:
    try:
        value, wanted = complex(got[0] / got[1] if isinstance(got, tuple) else got), complex(expected)
    except OverflowError:  # an int beyond the floats is close to none of them
        return False
    if cmath.isnan(value) or cmath.isnan(wanted):
        return _same_text(value.real, wanted.real) and _same_text(value.imag, wanted.imag)
    if wanted == 0 and tolerance.relative:
        return math.hypot(value.real, value.imag) <= max(tolerance.absolute, _ROUNDING)
    return cmath.isclose(value, wanted, rel_tol=tolerance.relative, abs_tol=tolerance.absolute)


def _same_text(got: float, expected: float) -> bool:
    return got == expected or (math.isnan(got) and math.isnan(expected))


def _same_dict(got: list[Form], expected: list[Form], tolerance: Tolerance) -> bool:
    """Equal keys have equal values. The others are within a tolerance, as elements of a set are, or wrong."""
    mine = {forms.key(pair[0]): pair for pair in got}
    theirs = {forms.key(pair[0]): pair for pair in expected}
    if len(mine) != len(theirs):
        return False
    if not all(matches(mine[name][1], pair[1], tolerance) for name, pair in theirs.items() if name in mine):
        return False
    left = [pair for name, pair in mine.items() if name not in theirs]
    return _same_rows(left, [pair for name, pair in theirs.items() if name not in mine], tolerance)


def _distinct(items: list[Form]) -> list[Form]:
    return list({forms.key(item): item for item in items}.values())


def _same_elements(got: list[Form], expected: list[Form], tolerance: Tolerance) -> bool:
    """Whether each of `expected` has one of `got` for itself: most are found by their key."""
    if len(got) != len(expected):
        return False
    left: dict[str, list[Form]] = defaultdict(list)
    for item in expected:
        left[forms.key(item)].append(item)
    mine = []
    for item in got:
        same = left.get(forms.key(item))
        if same:
            same.pop()
        else:
            mine.append(item)
    theirs = [item for items in left.values() for item in items]
    return _same_rows([[item] for item in mine], [[item] for item in theirs], tolerance)


def _same_rows(mine: list[list[Form]], theirs: list[list[Form]], tolerance: Tolerance) -> bool:
    """Whether each of as many rows has one that matches for itself: elements, or the pairs of a dict.

    Those that begin with numbers are paired in their order, which is exact for numbers alone; anything else by a search
    that does no more than a bounded work.
    """
    if all(isinstance(row[0], int | float) for row in [*mine, *theirs]):
        pairs = zip(sorted(mine, key=_first), sorted(theirs, key=_first), strict=True)
        if all(matches(one, other, tolerance) for one, other in pairs):
            return True
        if len(mine[0]) == 1:
            return False
    size = sum(map(_size, mine)) + sum(map(_size, theirs))
    return len(mine) * size <= _MOST_WORK and _paired(mine, theirs, tolerance)


def _size(form: Form) -> int:
    """The number of scalars in it."""
    if isinstance(form, dict):
        return sum(map(_size, form.values()))
    return sum(map(_size, form)) if isinstance(form, list) else 1


def _paired(mine: list[Form], theirs: list[Form], tolerance: Tolerance) -> bool:
    """A perfect matching, by augmenting paths: what fits two may have to leave one of them to another. False where it
    takes too many steps."""
    fits = [[i for i, other in enumerate(theirs) if matches(item, other, tolerance)] for item in mine]
    owner: dict[int, int] = {}
    steps = 0

    def place(item: int, seen: set[int]) -> bool:
        nonlocal steps
        steps += len(fits[item])
        free = next((i for i in fits[item] if i not in owner), None)
        if free is not None:
            owner[free] = item
            return True
        for i in fits[item]:
            if steps > _MOST_STEPS:
                return False
            if i not in seen:
                seen.add(i)
                if place(owner[i], seen):
                    owner[i] = item
                    return True
        return False

    return all(place(item, set()) for item in range(len(mine)))


def _first(row: list[Form]) -> float:
    try:
        number = float(row[0])
    except OverflowError:
        return math.inf if row[0] > 0 else -math.inf
    return math.inf if math.isnan(number) else number
