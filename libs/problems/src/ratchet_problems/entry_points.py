"""Which function tests are about, where nobody says it."""

import ast
import builtins
import re

from ratchet_kit import syntax


def entry_point_of(tests: str, code: str) -> str:
    """The function that the tests are about: the first that they call and the code defines, or the first they call."""
    try:
        nodes = list(ast.walk(syntax.parse(tests)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []  # the tests are parsed again, and their fault told, where the program is taken in
    called = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    local = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    called = [name for name in called if name not in local]
    called = [name for name in called if not hasattr(builtins, name)] or called
    defined = _defined(code)
    return next((name for name in called if name in defined), called[0] if called else "candidate")


def _defined(code: str) -> set[str]:
    found = re.findall(r"^(?:(?:async )?def|class) (\w+)|^(\w+)\s*=[^=]", code, re.MULTILINE)
    return {name for pair in found for name in pair if name}
