"""Functions that a prompt gives beside the one to be written."""

import ast
import functools
import sys

from ratchet_kit import syntax


def with_helpers(check: str, prompt: str, entry_point: str) -> str:
    """The test code, with the prompt's own helpers in front of it.

    HumanEval/32 is checked by the `poly` of its prompt. The program could bring another one, that agrees to anything.
    """
    helpers = _helpers(prompt, entry_point)
    return f"{helpers}\n\n{check}" if helpers and "__future__" not in check else check


@functools.lru_cache(maxsize=1024)
def _helpers(prompt: str, entry_point: str) -> str:
    if prompt.count("def ") < 2:
        return ""
    try:
        body = syntax.parse(prompt).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name != entry_point]
    if not functions:
        return ""
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and _from_library(node)]
    return "\n".join(ast.unparse(node) for node in [*imports, *functions])


def _from_library(node: ast.Import | ast.ImportFrom) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return all(name.partition(".")[0] in sys.stdlib_module_names - {"__future__"} for name in names)
