"""Which places of test code compare many elements at once, or identities, and are marked: see elements.py, equality.py.

A zip, or a map of several, is one where it's compared: in an `all`, in a loop that compares, and wherever its pairs are
compared or subtracted, if one of them comes from a call (`zip(f(1), want)`, `zip(got, want)` after `got = f(1)`): what
else the tests pair is theirs.
"""

import _ast
import builtins
from collections.abc import Iterator
from typing import Any, NamedTuple

from sandbox_service.cage.test_code import comparisons, elements

_BUILTINS = frozenset(vars(builtins))
_AS_THEY_ARE = {"enumerate", "list", "tuple", "reversed", "iter", "sorted"}
_PASS_ON = {"filter", "filterfalse", "starmap", "reduce", "takewhile", "dropwhile", "map"}
_SUMMARIES = {"all", "any", "sum", "max", "min"}
_ONE_NUMBER = _SUMMARIES | {"norm", "mean", "amax", "count_nonzero", "flatnonzero", "argwhere", "nonzero", "where"}
_COMPREHENSIONS = (_ast.GeneratorExp, _ast.ListComp, _ast.SetComp, _ast.DictComp)
_MAPS = {"map", elements.MAP}
_LITERALS = (_ast.List, _ast.Tuple, _ast.Set)
_LONG = 100  # items of a literal, beyond which it's data


def rewrite(body: list[Any], code: str) -> None:
    """Marks these places in test code."""
    if "zip(" in code or "map(" in code:
        _pair(body, frozenset())
    if " is " in code:
        for one in comparisons.walk(body, scopes=True):
            for part in _expressions(one):
                _identify(part)
    if "all(" in code or "numpy" in code:
        for at, statement in enumerate(body):
            body[at] = _changed(statement, _Look(), "numpy" in code)


def is_every(node: Any) -> bool:
    """`all(...)` of what is iterated there and then."""
    name = node.func.id if isinstance(node, _ast.Call) and isinstance(node.func, _ast.Name) else ""
    if name != elements.EVERY:
        return name == elements.ALL
    return isinstance(node.args[1], _ast.GeneratorExp | _ast.ListComp) or comparisons.called(node.args[1]) in _MAPS


# --- pairs


def _pair(body: list[Any], known: frozenset[str]) -> None:
    """Marks pairs in a scope, and in those in it. `known`: names that hold what came from calls."""
    statements = list(comparisons.walk(body, scopes=False))
    for one in statements:
        known |= _held(one, known)
    for one in statements:
        if isinstance(one, comparisons.SCOPES):
            _pair(one.body, known - _parameters(one))
            continue
        if isinstance(one, _ast.For) and _is_compared(one, known):
            one.iter = _paired(one.iter)
        in_comparison = comparisons.compares(one)
        for part in _expressions(one):
            _pair_within(part, known, in_comparison)


def _is_compared(loop: Any, known: frozenset[str]) -> bool:
    inside = list(comparisons.walk(loop.body, scopes=False))
    if any(map(comparisons.compares, inside)):
        return True
    return _comes_from_a_call(loop.iter, known) and any(
        _compares_or_subtracts(part) for one in inside for part in _expressions(one)
    )


def _pair_within(node: Any, known: frozenset[str], in_comparison: bool) -> None:
    """Marks pairs in an expression."""
    for part in _walk(node):
        if isinstance(part, _COMPREHENSIONS):
            items = [getattr(part, name, None) for name in ("elt", "key", "value")]
            conditions = [one for generator in part.generators for one in generator.ifs]
            if any(_compares_or_subtracts(one) for one in (*items, *conditions) if one is not None):
                _pair_generators(part, known)
        elif in_comparison and comparisons.called(part) in _SUMMARIES and part.args:
            if isinstance(part.args[0], _COMPREHENSIONS):
                _pair_generators(part.args[0], known)
            elif _comes_from_a_call(part.args[0], known):
                part.args[0] = _paired(part.args[0])
        elif in_comparison and comparisons.called(part) in _PASS_ON:
            part.args[:] = [_paired(one) if _comes_from_a_call(one, known) else one for one in part.args]


def _pair_generators(comprehension: Any, known: frozenset[str]) -> None:
    for one in comprehension.generators:
        if _comes_from_a_call(one.iter, known):
            one.iter = _paired(one.iter)


def _held(statement: Any, known: frozenset[str]) -> frozenset[str]:
    """The names that a statement gives to what came from calls."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, _ast.Assign | _ast.AnnAssign) or value is None:
        return frozenset()
    found: set[str] = set()
    for target in statement.targets if isinstance(statement, _ast.Assign) else [statement.target]:
        pairs = [(target, value)]
        if isinstance(target, _ast.Tuple) and isinstance(value, _ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, item in pairs:
            if _comes_from_a_call(item, known):
                found.update(one.id for one in _walk(name) if isinstance(one, _ast.Name))
    return frozenset(found)


def _parameters(scope: Any) -> frozenset[str]:
    """What the names in it are its own."""
    given = getattr(scope, "args", None)
    if given is None:
        return frozenset()
    return frozenset(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def _comes_from_a_call(node: Any, known: frozenset[str]) -> bool:
    """Whether a part of it does, and not of a function of Python's own: that may be the program's."""
    for part in _walk(node):
        if isinstance(part, _ast.Name) and part.id in known:
            return True
        if isinstance(part, _ast.Call) and not _is_own(part):
            return True
    return False


def _is_own(call: Any) -> bool:
    if not isinstance(call.func, _ast.Name) or call.func.id not in _BUILTINS | {elements.ZIP, elements.MAP}:
        return False
    return call.func.id != "map" or (bool(call.args) and getattr(call.args[0], "id", "") in _BUILTINS)


def _compares_or_subtracts(node: Any) -> bool:
    return any(
        isinstance(part, _ast.Compare) or (isinstance(part, _ast.BinOp) and isinstance(part.op, _ast.Sub))
        for part in _walk(node)
    )


def _expressions(statement: Any) -> Iterator[Any]:
    """Those of a statement, but not what stands in its blocks."""
    for name in statement._fields:
        part = getattr(statement, name, None)
        for one in part if isinstance(part, list) else [part]:
            if isinstance(one, _ast.expr):
                yield one
            elif isinstance(one, _ast.withitem):
                yield one.context_expr


def _walk(node: Any) -> Iterator[Any]:
    """It and all its parts, but for those of long literals."""
    yield node
    if _is_data(node):
        return
    for name in node._fields:
        part = getattr(node, name, None)
        for one in part if isinstance(part, list) else [part]:
            if isinstance(one, _ast.AST) and one._fields:
                yield from _walk(one)


def _is_data(node: Any) -> bool:
    items = node.elts if isinstance(node, _LITERALS) else node.values if isinstance(node, _ast.Dict) else ()
    return len(items) > _LONG


def _paired(node: Any) -> Any:
    """A zip of a list and its slice, `zip(x, x[1:])`, pairs what may be none."""
    if not isinstance(node, _ast.Call) or not isinstance(node.func, _ast.Name) or not node.args:
        return node
    name, sides = node.func.id, node.args
    if name in _AS_THEY_ARE:
        sides[0] = _paired(sides[0])
    if any(isinstance(getattr(side, "slice", None), _ast.Slice) for side in sides):
        return node
    if name == "zip":
        return _call(node, elements.ZIP, node.func, *sides, keywords=node.keywords)
    return _call(node, elements.MAP, node.func, *sides) if name == "map" and len(sides) > 2 else node


# --- identity


def _identify(node: Any) -> None:
    for part in _walk(node):
        if isinstance(part, _ast.Compare) and all(isinstance(one, _ast.Is | _ast.IsNot) for one in part.ops):
            sides = [part.left, *part.comparators]
            if not any(isinstance(side, _ast.Constant) for side in sides):
                part.left, *part.comparators = [_call(side, elements.IDENTITY, side) for side in sides]


# --- what is asked of all elements


class _Look(NamedTuple):
    """From where an expression is looked at."""

    in_comparison: bool = False
    all: bool = False
    """Within what an `all` looks at."""
    sum: bool = False
    """Within what becomes one number in a comparison."""

    def marks(self, operation: str, *sides: Any) -> bool:
        """What the tests select themselves (`x[labels == 2] - center`) may be none in a sum."""
        if self.all:
            return operation in elements.OPERATORS
        is_of_parts = any(isinstance(side, _ast.Subscript) for side in sides)
        return self.sum and operation in elements.DIFFERENCES and not is_of_parts


def _changed(node: Any, look: _Look, of_numpy: bool) -> Any:
    if _is_data(node):
        return node
    if isinstance(node, _ast.stmt):
        look = _Look(comparisons.compares(node))
    name = comparisons.called(node) if isinstance(node, _ast.Call) else ""
    inside = look._replace(
        all=look.all or name in ("all", "assert_array_less"),
        sum=look.sum or (look.in_comparison and name in _ONE_NUMBER),
    )
    for field in node._fields:
        part = getattr(node, field, None)
        if isinstance(part, _ast.AST):
            if part._fields:
                setattr(node, field, _changed(part, inside, of_numpy))
        elif isinstance(part, list):
            part[:] = [_changed(one, inside, of_numpy) if isinstance(one, _ast.AST) else one for one in part]
    if name == "all" and isinstance(node.func, _ast.Name) and len(node.args) == 1:
        for generator in getattr(node.args[0], "generators", ()):
            generator.iter = _paired(generator.iter)
        return _call(node, elements.EVERY, node.func, _paired(node.args[0]))
    if not of_numpy:
        return node
    if name == "all" and isinstance(node.func, _ast.Attribute) and not node.keywords:
        if _is_numpy(node.func.value) and len(node.args) == 1:
            return _call(node, elements.ALL, node.args[0], node.func)
        return node if node.args else _call(node, elements.ALL, node.func.value)
    if name in elements.COMPARE:
        marked = elements.ASSERTED if name.startswith("assert") else elements.COMPARED
        return _call(node, marked, node.func, *node.args, keywords=node.keywords)
    if isinstance(node, _ast.Compare) and len(node.ops) == 1:
        return _operated(node, type(node.ops[0]).__name__, look, node.left, node.comparators[0])
    if isinstance(node, _ast.BinOp):
        return _operated(node, type(node.op).__name__, look, node.left, node.right)
    return node


def _is_numpy(node: Any) -> bool:
    return isinstance(node, _ast.Name) and node.id in ("np", "numpy")


def _operated(node: Any, operation: str, look: _Look, left: Any, right: Any) -> Any:
    if not look.marks(operation, left, right):
        return node
    return _call(node, elements.OPERATED, _at(node, _ast.Constant(operation)), left, right)


def _call(near: Any, name: str, *arguments: Any, keywords: Any = ()) -> Any:
    return _at(near, _ast.Call(_at(near, _ast.Name(name, _ast.Load())), list(arguments), list(keywords)))


def _at(near: Any, node: Any) -> Any:
    node.lineno, node.col_offset = near.lineno, near.col_offset
    node.end_lineno, node.end_col_offset = near.end_lineno, near.end_col_offset
    return node
