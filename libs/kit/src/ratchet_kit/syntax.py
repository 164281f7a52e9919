"""Python source as a tree or as code: without its warnings, and one thread at a time.

Two threads that build trees at once get a SystemError now and then up to CPython 3.12, which counts the depth of both
as one (cpython issue 106905), and the list of warnings to ignore is everybody's. So all of Ratchet parses here: ruff
refuses ast.parse and ast.literal_eval elsewhere (pyproject.toml).

Nothing is compiled here: a compiler takes gigabytes of a few hundred bytes. What is parsed is what a caller wrote
(tests, literals), never what a model did: that is read by ratchet_problems.outline. The parser's time is in proportion
to the text but for f-strings, which it reads anew for each of their parts: those of very many are refused.

Whole numbers may have json_text.MOST_DIGITS, and not the 4,300 that Python itself reads.

All raise what `compile` does for what is not valid Python: SyntaxError, ValueError, RecursionError, MemoryError.
"""

import ast
import re
import symtable
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ratchet_kit import json_text

_turn = threading.Lock()
_STRING = re.compile(
    r"""#[^\n]*+|(?P<f>[fF][rR]?|[rR][fF])?(?:\'{3}(?:[^'\\]++|\\.|'(?!''))*+(?:\'{3})?"""
    r"""|\"{3}(?:[^"\\]++|\\.|"(?!""))*+(?:\"{3})?|'(?:[^'\\\n]++|\\.)*+'?|"(?:[^"\\\n]++|\\.)*+"?)""",
    re.DOTALL,
)
"""A string or a comment. One that does not end is one up to where it can't go on, so that nothing is read twice."""
_LONG = re.compile(r"(?<!\w)\d[\d_]{4300}")
_STRING_OR_LONG = re.compile(rf"{_STRING.pattern}|(?<![\w.])(?P<long>\d[\d_]{{4300,}})(?![\w.])", re.DOTALL)
_MOST_PARTS = 1 << 28
"""Parts of f-strings times characters: a quarter of a second or so."""


def parse(source: str) -> ast.Module:
    source = _with_long_numbers(source)
    with _alone(source):
        return ast.parse(source)  # noqa: TID251


def parse_expression(source: str) -> ast.Expression:
    source = _with_long_numbers(source)
    with _alone(source):
        return ast.parse(source.strip(), mode="eval")  # noqa: TID251


def parse_value(source: str) -> ast.Expression:
    """As `parse_expression`, of a value as repr writes it: inf and nan are numbers."""
    tree: ast.Expression = _WithConstants().visit(parse_expression(source))
    return tree


def literal(source: str) -> object:
    """The value of a literal. Raises ValueError, or TypeError for what can't be hashed, where it's more than that."""
    value: object = ast.literal_eval(parse_expression(source))  # noqa: TID251
    return value


def value(source: str) -> object:
    """As `literal`, of what `write` wrote."""
    found: object = ast.literal_eval(parse_value(source))  # noqa: TID251
    return found


def write(value: object) -> str:
    """The repr of a plain value; of one with a number that repr does not write, such numbers are in hex. Raises
    RecursionError for one that is nested too deeply."""
    try:
        return repr(value)
    except ValueError:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{write(key)}: {write(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return f"[{', '.join(map(write, value))}]"
        if isinstance(value, int):
            return hex(value)
        raise


class _WithConstants(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(float(node.id)) if node.id in ("inf", "nan") else node


def _with_long_numbers(source: str) -> str:
    """With those that Python does not read in hex, at the same length: places in the source stay what they are."""
    if not _LONG.search(source):
        return source
    return _STRING_OR_LONG.sub(lambda found: found[0] if found["long"] is None else _hex(found[0]), source)


def _hex(digits: str) -> str:
    return f"{json_text.whole(digits.replace('_', '')):#0{len(digits)}x}"


def symbols(source: str) -> symtable.SymbolTable:
    """Which names each scope binds and uses."""
    source = _with_long_numbers(source)
    with _alone(source):
        return symtable.symtable(source, "<unknown>", "exec")


@contextmanager
def _alone(source: str) -> Iterator[None]:
    if source.count("{") * len(source) > _MOST_PARTS and _work_of_f_strings(source) > _MOST_PARTS:
        raise ValueError("f-strings, and too many braces")
    with _turn, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _work_of_f_strings(source: str) -> int:
    """Parts times characters of each. Braces in other strings, such as tables of inputs, cost nothing."""
    return sum(found[0].count("{") * len(found[0]) for found in _STRING.finditer(source) if found["f"])
