"""Test code in Python: which function it is about, and what the program and the tests may count on."""

import ast
import builtins
import contextlib
import re

from ratchet_kit import syntax
from ratchet_kit.errors import Unimplemented
from ratchet_problems.benchmarks.work import Work
from ratchet_problems.problem import CheckTest

# What the pasted code could count on. A module is imported where its name is used.
_MODULES: tuple[str, ...] = ("math", "re", "sys", "copy", "datetime", "itertools", "collections", "heapq")
_MODULES += ("statistics", "functools", "hashlib", "string", "numpy")
STARS = "from typing import *\nfrom collections import *\n"
MAIN = "if __name__ =="


def checked(source: str, entry_point: str, test: str, extracted: str) -> Work:
    """A program against test code. Raises Unimplemented for test code that tests nothing."""
    _require_a_test(test)
    # behind its own imports the tests may use what the pasted code could: not over a name of the program
    defined = _defined(source)
    helpers = "".join(line for line in imports(test).splitlines(True) if line.split()[-1] not in defined)
    return Work(source, extracted, (CheckTest(helpers + test),), entry_point, test_code=test)


def _require_a_test(tests: str) -> None:
    """Code that only defines things passes whatever it's run against."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        statements = syntax.parse(tests).body
        idle = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
        checks = any(isinstance(each, ast.FunctionDef) and each.name == "check" for each in statements)
        if not checks and all(isinstance(each, idle) for each in statements):
            raise Unimplemented("the test code neither defines check(candidate) nor asserts or calls anything")


def imports(code: str) -> str:
    used = [name for name in _MODULES if re.search(rf"\b{name}\.", code)]
    lines = [f"import {name}\n" for name in used]
    return "".join(lines) + ("import numpy as np\n" if re.search(r"\bnp\.", code) else "")


def entry_point_of(tests: str, code: str) -> str:
    """The function that the tests are about: the first that they call and the code defines, or the first they call."""
    try:
        nodes = list(ast.walk(syntax.parse(tests)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []  # the tests are parsed again, and their fault told, where the program is taken in
    called = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    local = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    called = [name for name in called if not hasattr(builtins, name) and name not in local]
    defined = _defined(code)
    return next((name for name in called if name in defined), called[0] if called else "candidate")


def _defined(code: str) -> set[str]:
    found = re.findall(r"^(?:(?:async )?def|class) (\w+)|^(\w+)\s*=[^=]", code, re.MULTILINE)
    return {name for pair in found for name in pair if name}
