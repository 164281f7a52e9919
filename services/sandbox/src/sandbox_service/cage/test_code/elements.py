"""Comparisons of many elements at once that compare none: they hold for every answer that is empty, or masked.

`all(a == b for a, b in zip(f(1), [2]))` holds for [], and in numpy what is empty broadcasts against one row. So a zip
of nothing with something fails, and so does what compares an empty array with an array that holds some. Masked
elements, once the program gave some, agree with masked ones only. An `all` over nothing is no comparison, numpy's
neither, as a loop over nothing is none. Which places are marked: marking.py.
"""

import builtins
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from sandbox_service.cage.wire import arrays

ZIP, MAP, EVERY, COMPARED, OPERATED = "@zip", "@map", "@every", "@compared", "@operated"
IDENTITY, ALL = "@identity", "@all"
ASSERTED = f"assert{COMPARED}"
"""As COMPARED, for a function that is a comparison as a statement."""
_SAY = {"allclose", "allequal", "array_equiv", "array_equal"}
COMPARE = _SAY | {"isclose"} | {
    f"assert_{name}" for name in (
        "allclose", "equal", "array_equal", "almost_equal", "array_almost_equal", "array_almost_equal_nulp",
        "approx_equal", "array_max_ulp", "array_less",
    )
}  # fmt: skip
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge, "Sub": operator.sub,
}  # fmt: skip
DIFFERENCES = {"NotEq", "Sub"}
"""Those that say of nothing that nothing differs."""
_FIRST = {"a", "x", "actual"}
_SECOND = {"b", "y", "desired"}
_NOTHING = object()


class Elements:
    """What the marked places of test code call. `fail` makes the exception of a comparison that failed."""

    def __init__(self, fail: Callable[[str], BaseException]) -> None:
        self._fail = fail
        self.compared_some = False
        """Whether the last `all` looked at anything, or agreed that there's nothing."""

    def zip(self, function: Any, *sides: Any, **how: Any) -> Any:
        endless = any(type(side).__module__ == "itertools" for side in sides)
        if function is not builtins.zip or len(sides) < 2 or endless:
            return function(*sides, **how)
        return self._pairs(sides, how)

    def map(self, function: Any, *given: Any) -> Any:
        if function is not builtins.map:
            return function(*given)
        return (given[0](*items) for items in self.zip(builtins.zip, *given[1:]))

    def _pairs(self, sides: Any, how: Any) -> Iterator[Any]:
        parts = [iter(side) for side in sides]
        first = [next(part, _NOTHING) for part in parts]
        missing = sum(item is _NOTHING for item in first)
        if missing:
            if missing < len(parts):
                raise self._fail("compared no items with some")
            self.compared_some = True
            return
        yield tuple(first)
        yield from zip(*parts, **how)  # noqa: B905 (as the test code says)

    def every(self, function: Any, items: Any) -> Any:
        """As `all`."""
        some = function is not builtins.all
        if some:
            value = function(items)
        else:
            self.compared_some = False
            value = True
            for item in items:
                some = True
                if not item:
                    value = False
                    break
        self.compared_some = self.compared_some or some
        return value

    def all(self, items: Any, function: Any = None) -> Any:
        """As `items.all()`, or as `function`, numpy's, of them."""
        self.compared_some = not (arrays.is_array(items) and items.size == 0)
        return items.all() if function is None else function(items)

    def compare(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """A function of numpy that compares its first two arguments."""
        given = [*arguments[:2]]
        given += [item for names in (_FIRST, _SECOND) for name, item in named.items() if name in names]
        name = getattr(function, "__name__", "")
        if "numpy" in sys.modules and len(given) > 1 and name in COMPARE and _is_hollow(given[0], given[1], True):
            if name in _SAY:
                return False
            raise self._fail("compared an empty or masked array")
        return function(*arguments, **named)

    def operate(self, name: str, one: Any, other: Any) -> Any:
        result = OPERATORS[name](one, other)
        if arrays.is_array(result) and _is_hollow(one, other, False):
            raise self._fail("compared an empty or masked array")
        return result


def _is_hollow(one: Any, other: Any, scalars: bool) -> bool:
    """Whether one is empty and the other holds some, or they are masked at different places. `scalars`: a number
    holds one."""
    kinds = (list, tuple)
    if type(one) in kinds and type(other) in kinds and len(one) == len(other) and any(map(arrays.is_array, one)):
        return any(_is_hollow(a, b, scalars) for a, b in zip(one, other, strict=True))
    if type(one) is dict and type(other) is dict:
        return any(_is_hollow(item, other[name], scalars) for name, item in one.items() if name in other)
    a, b = arrays.of(one), arrays.of(other)
    if a is None or b is None:
        return False
    if (a.size == 0) != (b.size == 0):
        return scalars or (a.ndim > 0 and b.ndim > 0)
    return (scalars or (a.ndim > 0 and b.ndim > 0)) and arrays.masks_differ(a, b)
