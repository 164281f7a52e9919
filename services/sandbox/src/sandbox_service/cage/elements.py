"""Comparisons of many elements at once that compare none: they hold for every answer that is empty, or masked.

`all(a == b for a, b in zip(f(1), [2]))` holds for [], and in numpy what is empty broadcasts against one row. So a zip
of nothing with something fails, and so does what compares an empty array with an array that holds some. Masked
elements, once the program gave some, agree with masked ones only. An `all` over nothing is no comparison, as a loop
over nothing is none.
"""

import _ast
import builtins
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import arrays
import comparisons

ZIP, EVERY, COMPARED, OPERATED = "@zip", "@every", "@compared", "@operated"
ASSERTED = f"assert{COMPARED}"
"""As COMPARED, for a function that is a comparison as a statement."""
_SAY = {"allclose", "array_equiv", "array_equal"}
_COMPARE = _SAY | {"isclose"} | {
    f"assert_{name}" for name in (
        "allclose", "equal", "array_equal", "almost_equal", "array_almost_equal", "array_almost_equal_nulp",
        "approx_equal", "array_max_ulp", "array_less",
    )
}  # fmt: skip
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge, "Sub": operator.sub,
}  # fmt: skip
_FIRST = {"a", "x", "actual"}
_SECOND = {"b", "y", "desired"}
_LONG = 100  # items of a literal, beyond which it's data
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

    def _pairs(self, sides: Any, how: Any) -> Iterator[Any]:
        parts = [iter(side) for side in sides]
        first = [next(part, _NOTHING) for part in parts]
        missing = sum(item is _NOTHING for item in first)
        if missing:
            if missing < len(parts):
                raise self._fail("compared the items of nothing with something")
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

    def compare(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """A function of numpy that compares its first two arguments."""
        given = [*arguments[:2]]
        given += [item for names in (_FIRST, _SECOND) for name, item in named.items() if name in names]
        name = getattr(function, "__name__", "")
        if "numpy" in sys.modules and len(given) > 1 and name in _COMPARE and _is_hollow(given[0], given[1], True):
            if name in _SAY:
                return False
            raise self._fail("compared what is empty or masked")
        return function(*arguments, **named)

    def operate(self, name: str, one: Any, other: Any) -> Any:
        result = _OPERATORS[name](one, other)
        if arrays.is_array(result) and _is_hollow(one, other, False):
            raise self._fail("compared what is empty or masked")
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


# --- the places


def rewrite(body: list[Any], code: str) -> None:
    """Marks these places in test code."""
    if "zip(" in code:
        for one in comparisons.walk(body, scopes=True):
            if isinstance(one, _ast.For) and any(map(comparisons.compares, comparisons.walk(one.body, scopes=False))):
                one.iter = _zipped(one.iter)
    if "all(" in code or "numpy" in code:
        for at, statement in enumerate(body):
            body[at] = _changed(statement, False, "numpy" in code)


def is_every(node: Any) -> bool:
    """`all(...)` of what is iterated there and then."""
    is_all = isinstance(node, _ast.Call) and isinstance(node.func, _ast.Name) and node.func.id == EVERY
    return is_all and isinstance(node.args[1], _ast.GeneratorExp | _ast.ListComp)


def _changed(node: Any, whole: bool, of_numpy: bool) -> Any:
    """`whole`: within what an `all` looks at."""
    if isinstance(node, _ast.List | _ast.Tuple | _ast.Set) and len(node.elts) > _LONG:
        return node
    if isinstance(node, _ast.Dict) and len(node.values) > _LONG:
        return node
    name = comparisons.called(node) if isinstance(node, _ast.Call) else ""
    inside = whole or name in ("all", "assert_array_less")
    for field in node._fields:
        part = getattr(node, field, None)
        if isinstance(part, _ast.AST):
            if part._fields:
                setattr(node, field, _changed(part, inside, of_numpy))
        elif isinstance(part, list):
            part[:] = [_changed(one, inside, of_numpy) if isinstance(one, _ast.AST) else one for one in part]
    if name == "all" and isinstance(node.func, _ast.Name) and len(node.args) == 1:
        for generator in getattr(node.args[0], "generators", ()):
            generator.iter = _zipped(generator.iter)
        return _call(node, EVERY, node.func, *node.args)
    if not of_numpy:
        return node
    if name in _COMPARE:
        marked = ASSERTED if name.startswith("assert") else COMPARED
        return _call(node, marked, node.func, *node.args, keywords=node.keywords)
    if whole and isinstance(node, _ast.Compare) and len(node.ops) == 1 and type(node.ops[0]).__name__ in _OPERATORS:
        operation = type(node.ops[0]).__name__
        return _call(node, OPERATED, _at(node, _ast.Constant(operation)), node.left, node.comparators[0])
    if whole and isinstance(node, _ast.BinOp) and isinstance(node.op, _ast.Sub):
        return _call(node, OPERATED, _at(node, _ast.Constant("Sub")), node.left, node.right)
    return node


def _zipped(node: Any) -> Any:
    """A zip of a list and its slice, `zip(x, x[1:])`, pairs what may be none."""
    is_zip = isinstance(node, _ast.Call) and isinstance(node.func, _ast.Name) and node.func.id == "zip"
    if not is_zip or any(isinstance(getattr(side, "slice", None), _ast.Slice) for side in node.args):
        return node
    return _call(node, ZIP, node.func, *node.args, keywords=node.keywords)


def _call(near: Any, name: str, *arguments: Any, keywords: Any = ()) -> Any:
    return _at(near, _ast.Call(_at(near, _ast.Name(name, _ast.Load())), list(arguments), list(keywords)))


def _at(near: Any, node: Any) -> Any:
    node.lineno, node.col_offset = near.lineno, near.col_offset
    node.end_lineno, node.end_col_offset = near.end_lineno, near.end_col_offset
    return node
