"""What a prompt gives beside the function to be written: helpers and records, which are the tests', and classes that
do something, which are the program's."""

import functools
import re
import sys

from ratchet_problems import outline

_METHOD = re.compile(r"^[ \t]+(?:async )?def (\w+)", re.MULTILINE)


def with_helpers(check: str, prompt: str, entry_point: str) -> str:
    """The test code, with the prompt's own helpers and records in front of it.

    HumanEval/32 is checked by the `poly` of its prompt, LeetCode's trees are made of its `TreeNode`. The program could
    bring others, that agree to anything.
    """
    helpers = _helpers(prompt, entry_point.partition(".")[0])
    return f"{helpers}\n\n{check}" if helpers and "__future__" not in check else check


def declared(check: str, prompt: str, entry_point: str) -> list[str]:
    """Classes of the prompt that the test code names, and that are more than records: the program has them from there,
    and may have to complete them."""
    entry = entry_point.partition(".")[0]
    return [name for name in _classes(prompt) if name != entry and re.search(rf"\b{name}\b", check)]


@functools.lru_cache(maxsize=1024)
def _classes(prompt: str) -> tuple[str, ...]:
    if "class " not in prompt:
        return ()
    parts = [part for part in outline.parts(prompt) if part.kind == "class" and not _is_record(part, prompt)]
    return tuple(name for part in parts for name in sorted(part.names))


@functools.lru_cache(maxsize=1024)
def _helpers(prompt: str, entry_point: str) -> str:
    parts, entry = outline.parts(prompt), entry_point.partition(".")[0]
    own = [
        part
        for part in parts
        if not part.torn and entry not in part.names and (part.kind == "function" or _is_record(part, prompt))
    ]
    if not own:
        return ""
    imports = [part for part in parts if part.kind == "import" and _is_of_library(prompt[part.start : part.end])]
    return "".join(f"{prompt[part.start : part.end].rstrip()}\n" for part in [*imports, *own])


def _is_record(part: outline.Part, prompt: str) -> bool:
    """A class that holds values: it makes itself, and has no method to be called by name."""
    if part.kind != "class" or part.torn:
        return False
    methods = _METHOD.findall(prompt, part.start, part.end)
    return "__init__" in methods and all(name.startswith("__") for name in methods)


def _is_of_library(statement: str) -> bool:
    modules = outline.imported(statement)
    return bool(modules) and modules <= sys.stdlib_module_names - {"__future__"}
