"""Test code that is nothing but calls with literals, each asserted to equal a literal, as most of HumanEval and MBPP.

Such calls need no process of the tests: the program makes them all, as those of call tests, and what it answered is
compared here. The judgement is the one that the code itself would come to. Where that isn't certain, since an answer is
no plain value of Python's own, there is none, and the code is run.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sandbox_service.domain import forms
from sandbox_service.domain.forms import Form
from sandbox_service.domain.jobs import CheckReport, CheckVerdict, End, Oversized, Raised, Report
from sandbox_service.domain.program import Asserted, Relation

_DEEPEST = 20
_TEXT = 1024
_LARGEST = 1 << 32
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


class _More(Exception):
    """The code does more than that."""


# --- reading the code


def read(tree: ast.Module, entry_point: str) -> tuple[Asserted, ...]:
    """In the order in which they run: those of the file itself, of `check`, of functions `test...`. Empty for code that
    does anything else. The tree is that of code which `check` is not called by."""
    own, functions = list[Asserted](), dict[str, ast.FunctionDef]()
    try:
        for statement in tree.body:
            match statement:
                case ast.FunctionDef(name=name) if name not in functions and name != entry_point:
                    functions[name] = statement
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper() and name != entry_point:
                    _literal(value)  # METADATA, of which nothing is made
                case _:
                    own += _asserts(statement, (entry_point, "candidate"))
        check = functions.pop("check", None)
        if check:
            own += _of_function(check, entry_point, _parameters(check, 1))
        for name, function in functions.items():
            if not name.startswith("test"):
                raise _More
            own += _of_function(function, entry_point, _parameters(function, 0))
    except _More:
        return ()
    return tuple(own)


def _parameters(function: ast.FunctionDef, count: int) -> list[str]:
    """The names of as many plain ones, and nothing else about the function that could do anything."""
    given = function.args
    others = (given.posonlyargs, given.kwonlyargs, given.defaults, given.vararg, given.kwarg)
    if len(given.args) != count or any(others) or function.decorator_list or function.returns:
        raise _More
    if any(one.annotation for one in given.args):
        raise _More
    return [one.arg for one in given.args]


def _of_function(function: ast.FunctionDef, entry_point: str, parameters: Sequence[str]) -> Iterator[Asserted]:
    for statement in function.body:
        yield from _asserts(statement, (entry_point, "candidate", *parameters))


def _asserts(statement: ast.stmt, names: Sequence[str]) -> Iterator[Asserted]:
    match statement:
        case ast.Pass() | ast.Expr(ast.Constant()):
            pass
        case ast.Assert(ast.Constant(value=True)):
            pass
        case ast.Assert(test, message):
            text = "" if message is None else str(_literal(message))[:_TEXT]
            yield _asserted(test, names, text)
        case _:
            raise _More


def _asserted(test: ast.expr, names: Sequence[str], message: str) -> Asserted:
    match test:
        case ast.Compare(call, [ast.Eq()], [expected]):
            return Asserted(_arguments(call, names), _literal(expected), Relation.EQUALS, message)
        case ast.Compare(call, [ast.Is()], [ast.Constant(None | True | False as expected)]):
            return Asserted(_arguments(call, names), expected, Relation.IS, message)
        case ast.UnaryOp(ast.Not(), call):
            return Asserted(_arguments(call, names), False, Relation.TRUTH, message)
    return Asserted(_arguments(test, names), True, Relation.TRUTH, message)


def _arguments(call: ast.expr, names: Sequence[str]) -> tuple[Any, ...]:
    match call:
        case ast.Call(ast.Name(id=name), arguments, []) if name in names:
            return tuple(map(_literal, arguments))
    raise _More


def _literal(node: ast.expr, depth: int = 0) -> Any:
    """Its value."""
    if depth > _DEEPEST:
        raise _More
    below = depth + 1
    match node:
        case ast.Constant(value) if value is not ...:
            return value
        case ast.List(items):
            return [_literal(item, below) for item in items]
        case ast.Tuple(items):
            return tuple([_literal(item, below) for item in items])
        case ast.Set(items):
            return set(map(_hashable, items))
        case ast.Dict(keys, values):
            return {_hashable(key): _literal(item, below) for key, item in zip(keys, values, strict=True)}
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)) if type(value) is not bool:
            return -value
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
            return _computed(_OPERATIONS[type(operation)], _literal(left, below), _literal(right, below))
    raise _More


def _computed(operation: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """As the compiler would, of `3 * 19` and `"ab" + "cd"`: of small numbers, and of texts that are added."""
    if (type(one), type(other)) == (str, str) and operation is operator.add:
        return one + other
    if not all(type(number) in (int, float) and abs(number) <= _LARGEST for number in (one, other)):
        raise _More
    return operation(one, other)


def _hashable(node: ast.expr | None) -> Any:
    """Keys of a set or a dict: texts, which no one can choose by their hash, and small numbers."""
    value: Any = _literal(node) if node else []
    if type(value) is str or value is None or (type(value) in (int, bool) and abs(value) < 1 << 60):
        return value
    raise _More


# --- judging what came


def as_tested(asserted: Sequence[Asserted], report: Report) -> Report | None:
    """The report with what the test code would have said, or None where that is not known. Nothing that came after the
    first assertion which does not hold counts: the code would have ended there."""
    for one, answer in zip(asserted, report.answers, strict=False):
        if isinstance(answer, Oversized):
            return None
        if isinstance(answer, Raised):
            return _with(report, CheckReport(CheckVerdict.RAISED, str(answer)))
        holds = _holds(one, answer.value)
        if holds is None:
            return None
        if not holds:
            detail = ": ".join(filter(None, ("AssertionError", one.message)))
            return _with(report, CheckReport(CheckVerdict.FAILED, detail))
    if len(report.answers) > len(asserted):
        report = replace(report, malformed=f"{len(report.answers)} answers to {len(asserted)} calls")
    passed = len(report.answers) == len(asserted)
    return replace(report, tester=CheckReport(CheckVerdict.PASSED if passed else CheckVerdict.GONE))


def _with(report: Report, tester: CheckReport) -> Report:
    return replace(report, end=End.EXITED, error=None, tester=tester)


def _holds(one: Asserted, got: Form) -> bool | None:
    if one.relation is Relation.EQUALS:
        return same(got, one.expected)
    found = truth(got)
    if found is None or one.relation is Relation.TRUTH:
        return None if found is None else found is one.expected
    return got is one.expected  # the three of which there is one


def truth(got: Form) -> bool | None:
    """What Python says to `bool(got)`; None where `got` does not tell."""
    if not isinstance(got, dict):
        return bool(got)
    tag, body = forms.tagged(got)
    match tag:
        case "i":
            return int(body, 16) != 0
        case "c":
            return complex(*body) != 0
        case "b" | "t" | "d" | "s":
            return bool(body)
    return None


def same(got: Form, expected: Any) -> bool | None:
    """What Python says to `got == expected`; None where `got` does not tell. In time linear in both, whatever the
    program sent: it chooses no hashes here, as only what is in `expected` is kept."""
    if got is None or isinstance(got, bool | int | float | str):
        return bool(got == expected)
    if isinstance(got, list):
        return _all_same(got, expected) if type(expected) is list else False
    tag, body = forms.tagged(got)
    match tag:
        case "i":
            return bool(int(body, 16) == expected)
        case "c":
            return bool(complex(*body) == expected)
        case "b":
            return bool(bytes.fromhex(body) == expected)
        case "t":
            return _all_same(body, expected) if type(expected) is tuple else False
        case "d":
            return _same_dict(body, expected) if type(expected) is dict else False
        case "s":
            return _same_set(body, expected) if type(expected) is set else False
    return None


def _all_same(items: list[Form], expected: Sequence[Any]) -> bool | None:
    if len(items) != len(expected):
        return False
    return next((one for one in map(same, items, expected) if not one), True)


def _same_dict(pairs: list[list[Form]], expected: dict[Any, Any]) -> bool | None:
    if len(pairs) != len(expected):
        return False
    found = set()
    for key, item in pairs:
        if isinstance(key, list | dict):
            return None
        if key not in expected:
            return False
        found.add(key)
        equal = same(item, expected[key])
        if not equal:
            return equal
    return len(found) == len(expected)


def _same_set(items: list[Form], expected: set[Any]) -> bool | None:
    if any(isinstance(item, list | dict) for item in items):
        return None
    found = {item for item in items if item in expected}
    return len(items) == len(expected) == len(found)
