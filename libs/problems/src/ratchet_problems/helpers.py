"""What a prompt gives beside the function to be written: helpers and records, which are the tests', and classes that
do something, which are the program's."""

import functools
import re
import sys

from ratchet_problems import outline

RECORDS = "__records__"
"""What names the records to the sandbox: an object of the program's class of that name counts as one. No other class of
the tests is known to the program."""
_BASES = re.compile(r"^class \w+\s*\(\s*+(?!object\b|\))", re.MULTILINE)
_FUTURE = re.compile(r"\s*from\s+__future__\b")
_METHOD = re.compile(r"^[ \t]+(?:async )?def (\w+)", re.MULTILINE)
_TO_DO = re.compile(r"(?:^[ \t]+|:[ \t]*)(?:pass|\.\.\.|raise NotImplementedError.*)[ \t]*$", re.MULTILINE)


def with_helpers(check: str, prompt: str, entry_point: str) -> str:
    """The test code, with the prompt's own helpers and records in front of it.

    HumanEval/32 is checked by the `poly` of its prompt, LeetCode's trees are made of its `TreeNode`. The program could
    bring others, that agree to anything.
    """
    helpers = _helpers(prompt, entry_point.partition(".")[0])
    if not helpers:
        return check
    start = _after_future(check)
    return f"{check[:start]}{helpers}\n\n{check[start:]}"


def declared(check: str, prompt: str, entry_point: str) -> list[str]:
    """Classes of the prompt that the test code names, and that are no records: the program has them from there, and may
    have to complete them."""
    entry = entry_point.partition(".")[0]
    return [name for name in _classes_of_program(prompt) if name != entry and re.search(rf"\b{name}\b", check)]


@functools.lru_cache(maxsize=1024)
def _classes_of_program(prompt: str) -> tuple[str, ...]:
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
    records = sorted(name for part in own if part.kind == "class" for name in part.names)
    text = "".join(f"{prompt[part.start : part.end].rstrip()}\n" for part in [*imports, *own])
    return f"{text}{RECORDS} = {records}\n" if records else text


def _after_future(check: str) -> int:
    """Where the statements begin that are no `from __future__ import`, which must be the first."""
    if "__future__" not in check:
        return 0
    ends = [part.end for part in outline.parts(check) if part.kind == "import" and _FUTURE.match(check, part.start)]
    return max(ends, default=0)


def _is_record(part: outline.Part, prompt: str) -> bool:
    """A class that holds values and does nothing, as LeetCode's are: it has a whole `__init__`, no other method and no
    base. What compares, is raised or is still to be written is the program's."""
    if part.kind != "class" or part.torn:
        return False
    text = prompt[part.start : part.end].rstrip()
    if text.endswith(('"""', "'''")):  # of a method that is still to be written
        return False
    return _METHOD.findall(text) == ["__init__"] and not _BASES.search(text) and not _TO_DO.search(text)


def _is_of_library(statement: str) -> bool:
    modules = outline.imported(statement)
    return bool(modules) and modules <= sys.stdlib_module_names - {"__future__"}
