"""What a prompt gives beside the function to be written: helpers, which are the tests', and classes, which are not."""

import ast
import functools
import re
import sys

from ratchet_kit import syntax


def with_helpers(check: str, prompt: str, entry_point: str) -> str:
    """The test code, with the prompt's own helpers in front of it.

    HumanEval/32 is checked by the `poly` of its prompt. The program could bring another one, that agrees to anything.
    """
    helpers = _helpers(prompt, entry_point)
    return f"{helpers}\n\n{check}" if helpers and "__future__" not in check else check


def declared(check: str, prompt: str, entry_point: str) -> list[str]:
    """Classes of the prompt that the test code names: the program has them from there, and the tests make objects of
    them for it, as of LeetCode's TreeNode."""
    return [name for name in _classes(prompt) if name != entry_point and re.search(rf"\b{name}\b", check)]


@functools.lru_cache(maxsize=1024)
def _classes(prompt: str) -> tuple[str, ...]:
    if "class " not in prompt:
        return ()
    return tuple(dict.fromkeys(re.findall(r"^class ([A-Za-z_]\w*)", prompt, re.MULTILINE)))


@functools.lru_cache(maxsize=1024)
def _helpers(prompt: str, entry_point: str) -> str:
    if prompt.count("def ") < 2:
        return ""
    try:
        body = syntax.parse(prompt).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    entry = entry_point.partition(".")[0]
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name != entry]
    if not functions:
        return ""
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and _from_library(node)]
    return "\n".join(ast.unparse(node) for node in [*imports, *functions])


def _from_library(node: ast.Import | ast.ImportFrom) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return all(name.partition(".")[0] in sys.stdlib_module_names - {"__future__"} for name in names)
