"""The program that a completion means: the one reader of completions, for training, evaluation, serving and the doors.

A completion is a model's text, so that nothing of it is compiled or parsed here, and what is done to it takes time in
proportion to its length (outline.py). Whether the program is one, its lane says.

Not by tree-sitter-python and markdown-it-py in place of outline.py's parts and fences.py: of 3,937 published samples
89 and none give another program, of the 256 tests of this reader 7 and 33 fail (strings that hold fences, thoughts,
fences behind words), in 2.2 and 1.2 times the CPU time (measured in November 2026, versions 0.25 and 4.3).
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ratchet_problems import fences, outline, preludes, prose, scripts
from ratchet_problems.fences import Block
from ratchet_problems.languages import PYTHON, language_of
from ratchet_problems.problem import Problem

_IMPORT = re.compile(r"[ \t]*(?:#[ \t]*include|using|import|use)\b")
"""A line of C, C++, Java, JavaScript or Rust."""
_END = re.compile(r"^\}.*$", re.MULTILINE)
"""The line that closes what the prompt began."""


@dataclass(frozen=True, slots=True)
class _Found:
    code: str
    fenced: bool
    cut_off: bool
    """Its end may be missing."""


def extract_code(completion: str, entry_point: str = "", language: str = PYTHON) -> str:
    """The program that a model meant, as valid UTF-8. What can't be found is not invented: the text itself comes back.

    In this order:
    1. Thoughts (`<think>...</think>`, also unclosed, or opened by the prompt) go, and special tokens at both ends.
    2. With markdown fences: the last block in the language that defines `entry_point`, since a model that corrects
       itself means its last word, with what it uses of those before; if none does, the last one in the language; if
       none is, the last. Without an `entry_point`, what the last one lacks of those before comes in front, and where
       it's an excerpt the last whole program counts. An unclosed fence ends with the text. What stands in a fence is
       not edited.
    3. Without, in Python: what is left when lines go that are words for certain. Where the model was cut off, a last
       definition that is torn goes, if `entry_point` is complete.
    """
    return _find(completion, entry_point, language).code


def first_block(completion: str, language: str, *, any_language: bool = False) -> str:
    """By SandboxFusion's choice: the first block in the language, or the first of any; else the program that stands
    without a fence. Empty if there is no program."""
    language = language_of(language)
    found = fences.read(_clean(completion), language)
    if found.blocks and not found.blocks[0].leading:
        fitting = [block for block in found.blocks if block.language == language and not any_language]
        return _flat((fitting or found.blocks)[0].code, "").removesuffix("\n")
    text = found.blocks[0].code if found.blocks else "".join(found.outside)
    if language != "python" or len(text) > outline.MOST:
        return text if found.blocks else ""
    return (prose.programs(text) or [""])[0]


def program_of(problem: Problem, answer: str) -> str:
    """The program that an answer to the problem means; the answer itself where the problem asks for no program."""
    if problem.answers:
        return answer
    return source_for(problem.prompt, problem.entry_point, answer, problem.language)


def source_for(prompt: str, entry_point: str, completion: str, language: str = PYTHON) -> str:
    """The program that a completion means as an answer to its prompt.

    Where the prompt begins the program and the completion goes on (as in HumanEval: signature and docstring), both
    together. Where the completion repeats the prompt's function, what the prompt has beside it (imports, helpers) and
    the completion lacks comes in front. A method alone, whose class the prompt begins or the entry point names, is put
    into that class. A `Solution` without imports gets those names that LeetCode's judge lends.

    In another language a prompt that ends in an open brace begins the program, as in MultiPL-E and HumanEval-X. A
    completion without a fence goes on from it up to the first brace that closes at the margin, unless it repeats its
    last line; a fenced one gets the lines of the prompt that include or import and that it lacks.
    """
    name, _, method = entry_point.partition(".")
    if language_of(language) != PYTHON:
        return _in_other_language(prompt, completion, language)
    if not name:
        return extract_code(completion)
    found, given = _find(completion, name, "python"), _given(prompt, name)
    code = found.code if found.fenced else _flat(found.code, name)
    alone = "" if not method or defines(code, name) else _find(completion, method, "python").code
    if defines(code, name):
        code = preludes.with_prelude(given, name, code)
    elif defines(alone, method):
        code = preludes.with_class(given, name, method, alone)
    elif given:
        code = _continued(given, name, found)
    return preludes.with_judges_names(code) if name == "Solution" else code


def _in_other_language(prompt: str, completion: str, language: str) -> str:
    found = _find(completion, "", language)
    if not prompt.rstrip().endswith("{"):
        return found.code
    signature = prompt.rstrip().rpartition("\n")[2].strip()
    if not found.fenced and signature not in found.code:
        text = _clean(completion)
        end = _END.search(text)
        return f"{prompt}{text[: end.end()] if end else text}"
    if "package " in found.code:  # no line stands before it
        return found.code
    return "".join(line for line in _imports(prompt) if line.strip() not in found.code) + found.code


def _imports(prompt: str) -> list[str]:
    return [line for line in prompt.splitlines(keepends=True) if _IMPORT.match(line)]


def defines(code: str, name: str) -> bool:
    """True where the top level of `code` defines something of that name; the code need not be Python."""
    return bool(name) and name in code and name in outline.defined(code)


def begins_program(prompt: str, name: str) -> bool:
    """True where a completion goes on with the prompt's own code, which defines `name`."""
    return bool(_given(prompt, name))


@functools.lru_cache(maxsize=1024)
def _given(prompt: str, name: str) -> str:
    """The code in a prompt, if it begins what is to be written; else nothing."""
    code = extract_code(prompt, name) if name in prompt else ""
    return code if defines(code, name) else ""


def _clean(completion: str) -> str:
    return completion.encode("utf-8", "replace").decode()


def _find(completion: str, name: str, language: str) -> _Found:
    language = language_of(language)
    found = fences.read(_clean(completion), language)
    fenced = [block for block in found.blocks if not block.leading]
    leading = next((block for block in found.blocks if block.leading), None)
    if leading and not any(defines(block.code, name) for block in fenced):
        # code that the text began with, and nothing after it is the program instead
        answers = not name or _begins_inside(leading.code) or defines(leading.code, name)
        if answers or not fenced:
            return _bare(leading.code, name, language, cut_off=not leading.closed)
    if fenced:
        return _chosen(fenced, name, language)
    return _bare("".join(found.outside), name, language, cut_off=True)


def _chosen(blocks: Sequence[Block], name: str, language: str) -> _Found:
    """The last that fits best."""

    def fit(block: Block) -> tuple[bool, bool, bool, bool]:
        says = block.language == language
        untold = not block.language and (language != "python" or prose.begins_as_code(block.code, language))
        return (says or untold) and defines(block.code, name), says, untold, bool(block.code.strip())

    place = max(range(len(blocks)), key=lambda i: (fit(blocks[i]), i))
    block = blocks[place]
    earlier = [each.code for each in blocks[:place] if each.language == block.language]
    code = _flat(block.code if block.closed else _without_torn_end(block.code, name), name)
    if defines(code, name):
        code = preludes.with_used(earlier, code)
    elif not name and language == "python":
        code = scripts.with_needed(earlier, code)
    return _Found(code, fenced=True, cut_off=not block.closed)


def _bare(text: str, name: str, language: str, *, cut_off: bool) -> _Found:
    reads = language == "python" and len(text) <= outline.MOST
    pieces = prose.programs(text) if reads else []
    if reads and not pieces and not defines(text, name):
        # words, and code that stands apart from the margin
        pieces = [piece for piece in prose.programs(preludes.without_margin(text, 4)) if defines(piece, name)]
    code = next((piece for piece in pieces if defines(piece, name)), pieces[0] if pieces else text)
    return _Found(_without_torn_end(code, name) if cut_off else code, fenced=False, cut_off=cut_off)


def _without_torn_end(code: str, name: str) -> str:
    """Without a last definition that lacks its end, as a model leaves it that may say no more. Not if it's what was
    asked for: broken code stays broken."""
    parts = list(outline.parts(code)) if name else []
    if len(parts) < 2 or not parts[-1].torn or parts[-1].kind not in ("function", "class"):
        return code
    complete = any(name in part.names for part in parts[:-1])
    return code[: parts[-1].start] if complete and name not in parts[-1].names else code


def _begins_inside(code: str) -> bool:
    first = next(outline.statements(code), None)
    return bool(first and first.indent)


def _flat(code: str, name: str) -> str:
    """A whole program that stands apart from the margin comes to it; a body that goes on stays where it is."""
    statements = list(outline.statements(code)) if _begins_inside(code) else []
    if not statements or any(each.indent < statements[0].indent for each in statements):
        return code
    flat = preludes.without_margin(code, statements[0].indent)
    return flat if not name or defines(flat, name) else code


def _continued(given: str, name: str, found: _Found) -> str:
    code = found.code
    if found.fenced and not _begins_inside(code):
        code = preludes.as_body(given, name, code)
    if not given.endswith("\n") and (found.fenced or code[:1] in (" ", "\t")):
        given += "\n"
    return _without_torn_end(given + code, name) if found.cut_off else given + code
