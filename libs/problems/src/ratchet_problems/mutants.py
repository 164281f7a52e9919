"""Mutants of a program: each differs from it in one place, and good tests fail it.

The operators are those of Offutt et al. (1996, "An experimental determination of sufficient mutant operators") that
Python has, and of Derezinska & Halas (2014) for Python: relational, arithmetic and logical operators replaced,
conditions negated, constants changed, statements and results left out. They are written here since the kept packages
(cosmic-ray, mutmut) come with a runner, a database and twenty packages, for what are a hundred lines.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ratchet_kit import syntax
from ratchet_kit.text import clip

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LONGEST = 40
_Change = Callable[[ast.AST], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    source: str
    line: int
    """In the program that it is of."""
    change: str
    """For people: "a < b -> a <= b"."""


def mutants(source: str, most: int) -> list[Mutant]:
    """At most `most`, from places all over the program. Empty for a source that is not Python."""
    try:
        tree = syntax.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    places = [(place, change) for place, node in enumerate(_nodes(tree)) for change in _changes(node)]
    made: dict[str, Mutant] = {}
    plain = ast.unparse(tree)
    for place, change in places[:: max(1, -(-len(places) // most))]:
        other = copy.deepcopy(tree)
        node = next(each for at, each in enumerate(_nodes(other)) if at == place)
        before, line = _shown(node), getattr(node, "lineno", 1)
        change(node)
        text = ast.unparse(other)
        if text != plain:
            made.setdefault(text, Mutant(text, line, f"{before} -> {_shown(node)}"))
    return list(made.values())


def _nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Without what never runs: docstrings and annotations."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            below = value if isinstance(value, list) else [value]
            left += [each for each in reversed(below) if isinstance(each, ast.AST) and not _is_text(each)]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=[first, *others]):
            yield from (_setting("ops", [new(), *others]) for new in _COMPARISONS[type(first)])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in _ARITHMETIC:
            yield _setting("op", _ARITHMETIC[type(operator)]())
        case ast.BoolOp(op=operator):
            yield _setting("op", ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.If() | ast.While() | ast.IfExp():
            yield _negating("test")
        case ast.UnaryOp(op=ast.Not()):
            yield _negating("operand")
        case ast.Constant(value=bool(value)):
            yield _setting("value", not value)
        case ast.Constant(value=int(value)):
            yield from (_setting("value", value + 1), _setting("value", value - 1))
        case ast.Constant(value=float(value)):
            yield _setting("value", value + 1)
        case ast.Constant(value=str(value)):
            yield _setting("value", f"{value}x")
        case ast.Name(id=name, ctx=ast.Load()) if name in _FUNCTIONS:
            yield _setting("id", _FUNCTIONS[name])
        case ast.Return(value=ast.AST()):
            yield _setting("value", ast.Constant(None))
    for field in ("body", "orelse"):
        statements = getattr(node, field, None)
        if isinstance(statements, list):
            yield from (_replacing(field, place, new) for place, one in enumerate(statements) for new in _instead(one))


def _instead(statement: ast.stmt) -> Iterator[ast.stmt]:
    match statement:
        case ast.AugAssign() | ast.Expr(value=ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _negating(name: str) -> _Change:
    return lambda node: setattr(node, name, ast.UnaryOp(ast.Not(), getattr(node, name)))


def _setting(name: str, value: object) -> _Change:
    return lambda node: setattr(node, name, value)


def _replacing(field: str, place: int, new: ast.stmt) -> _Change:
    def change(node: ast.AST) -> None:
        getattr(node, field)[place] = new

    return change


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
        return node.__class__.__name__
    return clip(" ".join(ast.unparse(node).split()), _LONGEST)
