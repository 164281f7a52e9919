"""Which statements of test code compare. Only statements are looked at, so that a megabyte of literals costs nothing.

A statement compares if it is one of these:
- an assert of more than a constant (`f(1) == 2 or True` is one)
- a call whose name begins with assert, as a statement: self.assertEqual, numpy.testing.assert_allclose
  (neither with what is expected in the message's place: `assert f(1), 2`, `self.assertTrue(f(1), 2)`)
- `with` a call whose name begins with assert or holds "raises" or "warns"
- an `if` with a branch that raises, fails or exits: its condition
- a `match` with such a case
- a `try` whose body ends in a raise, a fail or a false assert: the exception that spares it that
- sys.exit and `raise SystemExit` with more than a constant

Used on both sides, by the cage and by the service.
"""

import _ast
from collections.abc import Iterator
from typing import Any

SCOPES = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)
_BLOCKS = ("body", "orelse", "finalbody")
_EXITS = ("exit", "quit", "fail")
_LITERALS = (_ast.List, _ast.Tuple, _ast.Dict, _ast.Set)


FIXTURES = frozenset(
    {"capsys", "capfd", "capsysbinary", "capfdbinary", "caplog", "monkeypatch", "recwarn", "request"}
    | {"tmp_path", "tmpdir", "tmp_path_factory"}
)
"""Those that pytest itself has and that test code is given: fixtures.py."""


def blocks(statement: Any) -> Iterator[list[Any]]:
    """The lists of statements in a statement."""
    for name in _BLOCKS:
        if block := getattr(statement, name, None):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def compares(statement: Any) -> bool:
    """Whether it does so itself: what stands in its blocks is not looked at."""
    match statement:
        case _ast.Assert():
            return not _is_constant(statement.test) and not _is_expected(statement.msg, statement.test)
        case _ast.Expr():
            return _asserts(statement.value) or exit_in(statement) is not None
        case _ast.Raise():
            return exit_in(statement) is not None
        case _ast.With() | _ast.AsyncWith():
            return any(_expects(item.context_expr) for item in statement.items)
        case _ast.If():
            return not _is_constant(statement.test) and (gives_up(statement.body) or gives_up(statement.orelse))
        case _ast.Match():
            is_literal = isinstance(statement.subject, _ast.Constant)
            return not is_literal and any(gives_up(case.body) for case in statement.cases)
        case _ast.Try():
            return bool(statement.handlers) and (gives_up(statement.body) or gives_up(statement.orelse))
    return False


def _is_constant(test: Any) -> bool:
    """A literal, or what is always true: `assert (f(1) == 2, "message")` is a tuple."""
    if isinstance(test, _ast.BoolOp) and isinstance(test.op, _ast.Or):
        return any(_is_constant(one) and not is_false(one) for one in test.values)
    if isinstance(test, _ast.Dict):
        return bool(test.keys)
    if isinstance(test, _ast.Tuple | _ast.List | _ast.Set):
        return bool(test.elts)
    return isinstance(test, _ast.Constant | _ast.Lambda | _ast.JoinedStr)


def _is_expected(message: Any, test: Any) -> bool:
    """Whether what stands in the message's place is the value that a call is to give."""
    if isinstance(message, _ast.UnaryOp):
        message = message.operand
    literal = isinstance(message, _ast.Constant) and not isinstance(message.value, str | None)
    return isinstance(test, _ast.Call) and (literal or isinstance(message, _LITERALS))


def is_false(test: Any) -> bool:
    return isinstance(test, _ast.Constant) and not test.value


def called(node: Any) -> str:
    """The name of what is called: f, or f of x.f; empty where nothing is."""
    if isinstance(node, _ast.Await):
        node = node.value
    if not isinstance(node, _ast.Call):
        return ""
    return str(getattr(node.func, "id", "") or getattr(node.func, "attr", ""))


def _asserts(node: Any) -> bool:
    """`assert_equal(a, b)`, `self.assertEqual(a, b)`, `assert_that(a).is_equal_to(b)`."""
    if isinstance(node, _ast.Await):
        node = node.value
    while isinstance(node, _ast.Call):
        if called(node).lower().lstrip("_").startswith("assert"):
            is_truth = called(node) in ("assertTrue", "assertFalse") and len(node.args) > 1
            return not (is_truth and _is_expected(node.args[1], node.args[0]))
        node = getattr(node.func, "value", None)
    return False


def _expects(node: Any) -> bool:
    name = called(node).lower()
    return name.startswith("assert") or "raises" in name or "warns" in name


def exit_in(statement: Any) -> Any:
    """The call in `sys.exit(...)` or `raise SystemExit(...)` with an argument that isn't a constant; else None."""
    raises = isinstance(statement, _ast.Raise)
    call = statement.exc if raises else statement.value
    ends = called(call) in (("SystemExit",) if raises else _EXITS[:2])
    return call if ends and call.args and not _is_constant(call.args[0]) else None


def gives_up(body: list[Any]) -> bool:
    """Whether one of these statements ends the test there and then."""
    for statement in body:
        match statement:
            case _ast.Raise():
                return True
            case _ast.Assert() if is_false(statement.test):
                return True
            case _ast.Expr() if called(statement.value) in _EXITS:
                return True
    return False


def walk(body: list[Any], scopes: bool) -> Iterator[Any]:
    """All statements in these, and in their blocks. `scopes`: also those of functions and classes in them."""
    for statement in body:
        yield statement
        if scopes or not isinstance(statement, SCOPES):
            for block in blocks(statement):
                yield from walk(block, scopes)
