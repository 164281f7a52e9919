"""What a prompt gives beside the function to be written: helpers, which are the tests', and classes, which are not."""

import functools
import re
import sys

from ratchet_problems import outline


def with_helpers(check: str, prompt: str, entry_point: str) -> str:
    """The test code, with the prompt's own helpers in front of it.

    HumanEval/32 is checked by the `poly` of its prompt. The program could bring another one, that agrees to anything.
    """
    helpers = _helpers(prompt, entry_point.partition(".")[0])
    return f"{helpers}\n\n{check}" if helpers and "__future__" not in check else check


def declared(check: str, prompt: str, entry_point: str) -> list[str]:
    """Classes of the prompt that the test code names: the program has them from there, and the tests make objects of
    them for it, as of LeetCode's TreeNode."""
    return [name for name in _classes(prompt) if name != entry_point and re.search(rf"\b{name}\b", check)]


@functools.lru_cache(maxsize=1024)
def _classes(prompt: str) -> tuple[str, ...]:
    if "class " not in prompt:
        return ()
    return tuple(name for part in outline.parts(prompt) if part.kind == "class" for name in sorted(part.names))


@functools.lru_cache(maxsize=1024)
def _helpers(prompt: str, entry_point: str) -> str:
    parts, entry = outline.parts(prompt), entry_point.partition(".")[0]
    functions = [part for part in parts if part.kind == "function" and not part.torn and entry not in part.names]
    if not functions:
        return ""
    imports = [part for part in parts if part.kind == "import" and _is_of_library(prompt[part.start : part.end])]
    return "".join(f"{prompt[part.start : part.end].rstrip()}\n" for part in [*imports, *functions])


def _is_of_library(statement: str) -> bool:
    modules = outline.imported(statement)
    return bool(modules) and modules <= sys.stdlib_module_names - {"__future__"}
