"""Which statements of test code compare, and a form of the code that counts them as they run.

`assert f(1) == 2` becomes `if seen(f(1) == 2): pass; else: raise AssertionError`, as pytest does it: it is counted, and
no compiler option leaves it out. Only statements are looked at, so that a megabyte of literals costs nothing.

A statement compares if it is one of these:
- an assert of more than a constant
- a call whose name begins with assert, as a statement: self.assertEqual, numpy.testing.assert_allclose
- `with` a call whose name begins with assert or holds "raises" or "warns"
- an `if` with a branch that raises, fails or exits: its condition
- a `try` whose body ends in a raise, a fail or a false assert: the exception that spares it that
- sys.exit with more than a constant

Used on both sides: the cage imports it by path, the service as a module.
"""

import _ast
import builtins
import sys
from collections.abc import Callable, Iterator
from typing import Any

_SEEN, _CHECKED, _ERROR = "@seen", "@checked", "@AssertionError"
_BLOCKS = ("body", "orelse", "finalbody")
_EXITS = ("exit", "quit", "fail")
_SCOPES = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)


class Count:
    """What the comparisons of the tests came to."""

    def __init__(self, was_used: Callable[[], bool]) -> None:
        """`was_used`: whether the program has been asked anything; what was compared before that counts for nothing."""
        self._was_used = was_used
        self.compared = 0
        self.failed: list[str] = []
        """Assertions that did not hold, by their lines: the test code may have caught what they raised."""

    def install(self) -> None:
        """Where compiled tests find it, in this process."""
        vars(builtins).update({_SEEN: self._seen, _CHECKED: self._checked, _ERROR: AssertionError})

    def _seen(self, value: object) -> object:
        if value:
            self._checked()
        else:
            self.failed.append(f"line {sys._getframe(1).f_lineno}")
        return value

    def _checked(self, value: object = None) -> object:
        if self._was_used():
            self.compared += 1
        return value


def parse(code: str) -> Any:
    return compile(code, "tests.py", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)


def counted(tree: Any, filename: str = "tests.py") -> Any:
    """The compiled code of a tree, which is changed."""
    _rewrite(tree.body)
    return compile(tree, filename, "exec", dont_inherit=True)


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
            return not _is_constant(statement.test)
        case _ast.Expr():
            return _asserts(statement.value) or _is_exit(statement)
        case _ast.With() | _ast.AsyncWith():
            return any(_expects(item.context_expr) for item in statement.items)
        case _ast.If():
            return not _is_constant(statement.test) and (_gives_up(statement.body) or _gives_up(statement.orelse))
        case _ast.Try():
            return bool(statement.handlers) and (_gives_up(statement.body) or _gives_up(statement.orelse))
    return False


def _rewrite(body: list[Any]) -> None:
    for place in range(len(body) - 1, -1, -1):
        statement = body[place]
        compared = compares(statement)
        for block in blocks(statement):
            _rewrite(block)
        if not compared:
            if isinstance(statement, _ast.Assert) and _is_false(statement.test):
                body[place] = _asserted(statement)
            continue
        match statement:
            case _ast.Assert():
                body[place] = _asserted(statement)
            case _ast.If():
                statement.body.insert(0, _note(statement))
                statement.orelse.insert(0, _note(statement))
            case _ast.Try():
                for handler in statement.handlers:
                    handler.body.insert(0, _note(statement))
            case _ast.Expr() if _is_exit(statement):
                call: Any = statement.value
                call.args[0] = _at(call, _ast.Call(_name(call, _CHECKED), [call.args[0]], []))
            case _:
                body.insert(place + 1, _note(statement))


def _asserted(statement: Any) -> Any:
    """`if seen(test): pass` `else: raise AssertionError(message)`"""
    error = _name(statement, _ERROR)
    if statement.msg is not None:
        error = _at(statement, _ast.Call(error, [statement.msg], []))
    seen = _at(statement, _ast.Call(_name(statement, _SEEN), [statement.test], []))
    done, failed = _at(statement, _ast.Pass()), _at(statement, _ast.Raise(error, None))
    return _at(statement, _ast.If(seen, [done], [failed]))


def _note(near: Any) -> Any:
    return _at(near, _ast.Expr(_at(near, _ast.Call(_name(near, _CHECKED), [], []))))


def _name(near: Any, name: str) -> Any:
    return _at(near, _ast.Name(name, _ast.Load()))


def _at(near: Any, node: Any) -> Any:
    node.lineno, node.col_offset = near.lineno, near.col_offset
    node.end_lineno, node.end_col_offset = near.end_lineno, near.end_col_offset
    return node


def _is_constant(test: Any) -> bool:
    """A literal, or what is always true: `assert (f(1) == 2, "message")` is a tuple."""
    if isinstance(test, _ast.Tuple | _ast.List | _ast.Set):
        return bool(test.elts)
    return isinstance(test, _ast.Constant | _ast.Lambda | _ast.JoinedStr)


def _is_false(test: Any) -> bool:
    return isinstance(test, _ast.Constant) and not test.value


def _called(node: Any) -> str:
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
        if _called(node).lower().lstrip("_").startswith("assert"):
            return True
        node = getattr(node.func, "value", None)
    return False


def _expects(node: Any) -> bool:
    name = _called(node).lower()
    return name.startswith("assert") or "raises" in name or "warns" in name


def _is_exit(statement: Any) -> bool:
    """sys.exit(...) with an argument that isn't a constant."""
    name = _called(statement.value)
    return name in _EXITS[:2] and bool(statement.value.args) and not _is_constant(statement.value.args[0])


def _gives_up(body: list[Any]) -> bool:
    """Whether one of these statements ends the test there and then."""
    for statement in body:
        match statement:
            case _ast.Raise():
                return True
            case _ast.Assert() if _is_false(statement.test):
                return True
            case _ast.Expr() if _called(statement.value) in _EXITS:
                return True
    return False


def walk(body: list[Any], scopes: bool) -> Iterator[Any]:
    """All statements in these, and in their blocks. `scopes`: also those of functions and classes in them."""
    for statement in body:
        yield statement
        if scopes or not isinstance(statement, _SCOPES):
            for block in blocks(statement):
                yield from walk(block, scopes)
