"""Test code in Python: what the program and the tests may count on."""

import ast
import builtins
import collections
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ratchet_kit import syntax
from ratchet_problems.problem import CheckTest
from sandbox_service.fusion.rows.work import Work

# What the pasted code could count on. A module is imported where its name is used.
_MODULES: tuple[str, ...] = ("math", "re", "sys", "copy", "datetime", "itertools", "collections", "heapq")
_MODULES += ("statistics", "functools", "hashlib", "string", "numpy")
STARS = "from typing import *\nfrom collections import *\n"
MAIN = "if __name__ =="


def pasted(source: str, entry_point: str, test: str, extracted: str) -> Work:
    """A program with test code below it, in one process: for tests that can't be apart from it."""
    return Work(source, extracted, (CheckTest(test, shared=True),), entry_point, test_code=test)


def checked(source: str, entry_point: str, test: str, extracted: str, names: Sequence[str] = ()) -> Work:
    """A program against test code. `names`: what the row says that it uses of the program beside the entry point."""
    own = _own_imports(test, entry_point)
    lent = [name for name in _lent(test, entry_point) if name not in names]
    return Work(source, extracted, (CheckTest(own + test, names=(*names, *lent)),), entry_point, test_code=test)


def _own_imports(test: str, entry_point: str) -> str:
    """Behind these the tests may use what the pasted code could: never the program's under such a name."""
    lines = [line for line in imports(test).splitlines(True) if line.split()[-1] != entry_point]
    free = _names(test).free - {entry_point}
    for module in (typing, collections):
        lines += [f"from {module.__name__} import {name}\n" for name in sorted(free & set(module.__all__))]
    return "".join(lines)


def _lent(test: str, entry_point: str) -> list[str]:
    """Names of nobody that stand in arguments of the entry point alone, as in `f([Pair(1, 2)])`, or in what is set up
    before it's called. What they stand for is handed to the program, and says nothing of its answer."""
    names = _names(test, entry_point)
    library = {*_MODULES, *typing.__all__, *collections.__all__, "np", "candidate"}
    return sorted(names.free - names.deciding - library - {entry_point.partition(".")[0]})


@dataclass(frozen=True, slots=True)
class _Names:
    free: frozenset[str] = frozenset()
    """Used, bound nowhere, and no builtins."""
    deciding: frozenset[str] = frozenset()
    """Used where they may decide: anywhere else."""


def _names(test: str, entry_point: str = "") -> _Names:
    try:
        tree = syntax.parse(test)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Names()  # the tests are read again, and their fault told, where the program is taken in
    nodes = list(ast.walk(tree))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {(alias.asname or alias.name).partition(".")[0] for node in nodes
              if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
    handed = {id(name) for node in nodes if _is_call_of(node, entry_point) for name in _arguments(node)}
    called = min((node.lineno for node in names if node.id in (entry_point, "candidate")), default=0)
    setup = (each for each in tree.body if isinstance(each, ast.Assign) and each.lineno < called)
    handed |= {id(name) for each in setup for name in ast.walk(each.value)}
    free = {node.id for node in names if node.id not in bound and not hasattr(builtins, node.id)}
    return _Names(frozenset(free), frozenset(node.id for node in names if id(node) not in handed))


def _is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in (name, "candidate")


def _arguments(call: ast.AST) -> Iterator[ast.AST]:
    assert isinstance(call, ast.Call)
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        yield from ast.walk(argument)


def imports(code: str) -> str:
    used = [name for name in _MODULES if re.search(rf"\b{name}\.", code)]
    lines = [f"import {name}\n" for name in used]
    return "".join(lines) + ("import numpy as np\n" if re.search(r"\bnp\.", code) else "")
