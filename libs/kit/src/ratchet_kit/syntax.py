"""Python source as a tree or as code: without its warnings, and one thread at a time.

Two threads that build trees at once get a SystemError now and then up to CPython 3.12, which counts the depth of both
as one (cpython issue 106905), and the list of warnings to ignore is everybody's. So all of Ratchet parses here: ruff
refuses ast.parse and ast.literal_eval elsewhere (pyproject.toml).

All raise what `compile` does for what is no Python: SyntaxError, ValueError, RecursionError, MemoryError.
"""

import ast
import symtable
import threading
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_turn = threading.Lock()


def parse(source: str) -> ast.Module:
    with _alone():
        return ast.parse(source)  # noqa: TID251


def parse_expression(source: str) -> ast.Expression:
    with _alone():
        return ast.parse(source.strip(), mode="eval")  # noqa: TID251


def literal(source: str) -> object:
    """The value of a literal. Raises ValueError, or TypeError for what can't be hashed, where it's more than that."""
    value: object = ast.literal_eval(parse_expression(source))  # noqa: TID251
    return value


def compiled(source: str, name: str) -> types.CodeType:
    """`name` is what traces call it."""
    with _alone():
        return compile(source, name, "exec", dont_inherit=True)


def symbols(source: str) -> symtable.SymbolTable:
    """Which names each scope binds and uses."""
    with _alone():
        return symtable.symtable(source, "source", "exec")


@contextmanager
def _alone() -> Iterator[None]:
    with _turn, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
