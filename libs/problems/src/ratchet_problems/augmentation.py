"""Variants of a problem: other names, words and order of parameters, with the same tests.

Each keeps what the problem asks for, so that its tests hold for it, and belongs to the family of the problem: all
have one structure, and no statistic counts them as independent. Whoever uses them runs the reference first.
"""

import ast
import io
import random
import re
import tokenize
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from

from ratchet_kit import syntax
from ratchet_problems.languages import PYTHON
from ratchet_problems.problem import CallTest, CheckTest, Problem, TestCase

_TRIES = 8
"""Draws for one variant."""
_VERBS = ("compute", "find", "get", "solve", "make", "do")
_PARAMETERS = ("first", "second", "third", "given", "source", "item", "value_in", "data", "left", "right", "arg")
_WORDS: Sequence[tuple[str, Sequence[str]]] = (
    (r"\bWrite a (?:python )?function\b", ("Implement a function", "Create a function", "Define a function")),
    (r"\bWrite a (?:python )?program\b", ("Implement a program", "Create a program")),
    (r"\bto find\b", ("that finds", "to determine")),
    (r"\bto check (?:whether|if)\b", ("that tells whether", "to decide whether")),
    (r"\bcheck if\b", ("tell whether", "check whether")),
    (r"\bCheck if\b", ("Tell whether", "Check whether")),
    (r"\bReturn (?=the|a|an|True|only|all)\b", ("Give back ", "Compute and return ", "The result is ")),
    (r"\bGiven (?=a|an|the|two)\b", ("You get ", "For ")),
    (r"\bthe given\b", ("the", "the provided")),
    (r"\bfrom the given\b", ("out of the given", "of the given")),
    (r"\bYour task is to\b", ("You should", "The task is to")),
    (r"\bfor example\b", ("for instance", "e.g.")),
    (r"\bFor example\b", ("For instance", "As an example")),
    (r"\busing\b", ("by means of", "with the help of")),
)
"""Wordings that say the same, by a regular expression."""
_BY_PLACE = re.compile(
    r"\b(?:first|second|third|last)\b.{0,20}\b(?:argument|parameter|input)|\brespectively\b", re.I | re.S
)
"""Prompts that name parameters by their places."""


@dataclass(frozen=True, slots=True)
class Family:
    """A problem with its variants; all have one structure."""

    problem: Problem
    variants: Sequence[Problem]


def families(problems: Sequence[Problem], count: int) -> list[Family]:
    """The family of each problem, in order, without the variants that the set has already, and with ids of their own:
    a set that was augmented before is augmented further."""
    ids, prompts = {one.id for one in problems}, {one.prompt for one in problems}
    found = []
    for one in problems:
        new = [variant for variant in family(one, count).variants if variant.prompt not in prompts]
        named = [replace(variant, id=_free(variant.id, ids)) for variant in new]
        prompts |= {variant.prompt for variant in named}
        found.append(Family(replace(one, structure=one.structure or one.id) if named else one, named))
    return found


def _free(id: str, taken: set[str]) -> str:
    base, _, number = id.rpartition("~")
    id = next(it for it in (f"{base}~{place}" for place in count_from(int(number))) if it not in taken)
    taken.add(id)
    return id


def family(problem: Problem, count: int) -> Family:
    """At most `count` variants that differ from the problem and from each other in more than their ids; fewer, or none,
    where there is little to vary. The same problem gives the same."""
    structure = problem.structure or problem.id
    base = replace(problem, structure=structure)
    found: dict[tuple[str, str], Problem] = {}
    drawn = random.Random(zlib.crc32(problem.id.encode("utf-8", "replace")))
    for _ in range(_TRIES * count):
        if len(found) == count:
            break
        one = _varied(base, drawn)
        key = (one.prompt, one.entry_point)
        if one.prompt != base.prompt and key not in found:
            found[key] = replace(one, id=f"{base.id}~{len(found) + 1}")
    return Family(base if found else problem, list(found.values()))


def _varied(problem: Problem, drawn: random.Random) -> Problem:
    for change in (_reordered, _with_parameters, _renamed, _reworded):
        if drawn.random() < 0.8:
            problem = change(problem, drawn)
    return problem


def _reworded(problem: Problem, drawn: random.Random) -> Problem:
    """Words outside of code: lines of examples and of signatures stay."""
    lines = problem.prompt.splitlines(keepends=True)
    for pattern, others in _WORDS:
        if drawn.random() < 0.3:
            continue
        other = drawn.choice(others)
        lines = [line if _is_code(line) else re.sub(pattern, other, line) for line in lines]
    return replace(problem, prompt="".join(lines))


def _is_code(line: str) -> bool:
    return line.lstrip().startswith((">>>", "def ", "class ", "@", "assert ", "import ", "from ", "```"))


def _renamed(problem: Problem, drawn: random.Random) -> Problem:
    """Another name of the function, where the prompt shows it in code only."""
    owner, _, name = problem.entry_point.rpartition(".")
    if problem.language != PYTHON or not name or not _is_safe(problem.prompt, name):
        return problem
    verb = drawn.choice(_VERBS)
    camel = "".join(part.title() for part in name.split("_"))
    other = drawn.choice(
        [f"{verb}_{name}", f"{verb}{camel}", f"{name}_{drawn.choice(('of', 'for', 'from', 'result'))}"]
    )
    if any(re.search(rf"\b{other}\b", text) for text in (problem.prompt, *problem.references)):
        return problem
    changed = _with_names(problem, {name: other})
    return replace(changed, entry_point=f"{owner}.{other}" if owner else other)


def _with_parameters(problem: Problem, drawn: random.Random) -> Problem:
    """Other names of parameters, where the prompt shows them in its signature alone."""
    head = _signature(problem)
    if head is None or any(isinstance(test, CheckTest) and _by_keyword(test.code, head) for test in problem.tests):
        return problem
    outside = problem.prompt.replace(_line_of(problem.prompt, head.name), "")
    texts = (problem.prompt, *problem.references)
    names: dict[str, str] = {}
    for one in _plain(head):
        free = [name for name in _PARAMETERS if not any(re.search(rf"\b{name}\b", text) for text in texts)]
        free = [name for name in free if name not in names.values()]
        if free and not re.search(rf"\b{re.escape(one)}\b", outside):
            names[one] = drawn.choice(free)
    return _with_names(problem, names, in_tests=False) if names else problem


def _reordered(problem: Problem, drawn: random.Random) -> Problem:
    """The parameters in another order: in the signature and the examples of the prompt, in references and tests."""
    head = _signature(problem)
    if head is None or _BY_PLACE.search(problem.prompt):
        return problem
    count = len(_plain(head))
    if count < 2 or head.args.defaults or _other_arguments(head):
        return problem
    order = list(range(count))
    drawn.shuffle(order)
    if order == sorted(order):
        return problem
    try:
        prompt = _prompt_in_order(problem.prompt, head, order)
        references = tuple(_program_in_order(one, {head.name}, order) for one in problem.references)
        tests = tuple(_test_in_order(test, head.name, order) for test in problem.tests)
    except (_Unchanged, SyntaxError, ValueError, RecursionError, MemoryError):
        return problem
    return replace(problem, prompt=prompt, references=references, tests=tests)


class _Unchanged(Exception):
    """Something would not follow the new order."""


def _signature(problem: Problem) -> ast.FunctionDef | None:
    """The head of the entry point, a function, where the prompt and all references have it with the same parameters."""
    name = problem.entry_point
    if problem.language != PYTHON or not name.isidentifier() or not problem.references:
        return None
    heads = [_head(one, name) for one in problem.references]
    line = _line_of(problem.prompt, name)
    shown = _head(f"{line.strip()}\n    pass", name) if line else None
    first = heads[0]
    if first is None or shown is None or any(one is None or _plain(one) != _plain(shown) for one in heads):
        return None
    return first


def _line_of(prompt: str, name: str) -> str:
    """The line `def name(...):` of the prompt, if there is exactly one."""
    found = re.findall(rf"^[ \t]*def {re.escape(name)}\(.*\).*:[ \t]*$", prompt, re.MULTILINE)
    return found[0] if len(found) == 1 else ""


def _head(source: str, name: str) -> ast.FunctionDef | None:
    try:
        tree = syntax.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found[0] if len(found) == 1 else None


def _plain(head: ast.FunctionDef) -> list[str]:
    return [one.arg for one in head.args.args]


def _other_arguments(head: ast.FunctionDef) -> bool:
    its = head.args
    return bool(its.posonlyargs or its.kwonlyargs or its.vararg or its.kwarg)


def _by_keyword(code: str, head: ast.FunctionDef) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\s*=[^=]", code) for name in _plain(head))


def _is_safe(prompt: str, name: str) -> bool:
    """True where each occurrence of the name is code: it looks like a name, or stands before a bracket or in marks."""
    if "_" in name or re.search(r"\d|[a-z][A-Z]", name):
        return True
    return all(
        prompt[found.end() : found.end() + 1] in ("(", "`", "'", '"') for found in re.finditer(rf"\b{name}\b", prompt)
    )


def _with_names(problem: Problem, names: Mapping[str, str], *, in_tests: bool = True) -> Problem:
    """Names are replaced in code by its tokens, in the prompt by whole words."""

    def words(text: str) -> str:
        return re.sub(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b", lambda found: names[found.group()], text)

    line = "" if in_tests else _line_of(problem.prompt, problem.entry_point)
    return replace(
        problem,
        prompt=problem.prompt.replace(line, words(line)) if line else words(problem.prompt),
        references=tuple(_tokens_replaced(one, names) for one in problem.references),
        tests=tuple(
            replace(test, code=_tokens_replaced(test.code, names)) if in_tests and isinstance(test, CheckTest) else test
            for test in problem.tests
        ),
    )


def _tokens_replaced(source: str, names: Mapping[str, str]) -> str:
    """`source` as it is where it is no Python. Attributes of other objects keep their names."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return source
    lines = source.splitlines(keepends=True)
    for place in range(len(tokens) - 1, -1, -1):
        one = tokens[place]
        after_dot = place and tokens[place - 1].string == "." and tokens[place - 1].type == tokenize.OP
        if one.type == tokenize.NAME and one.string in names and not after_dot:
            row, start = one.start[0] - 1, one.start[1]
            lines[row] = lines[row][:start] + names[one.string] + lines[row][one.end[1] :]
    return "".join(lines)


def _prompt_in_order(prompt: str, head: ast.FunctionDef, order: Sequence[int]) -> str:
    line = _line_of(prompt, head.name)
    new = _call_rewritten(line, line.index(head.name), head.name, order, _parameters)
    outside = prompt.replace(line, "\0")
    place = 0
    while (place := outside.find(f"{head.name}(", place)) >= 0:
        outside = _call_rewritten(outside, place, head.name, order, _arguments)
        place += len(head.name)
    return outside.replace("\0", new)


def _call_rewritten(
    text: str, place: int, name: str, order: Sequence[int], parts_of: Callable[[str], Sequence[str] | None]
) -> str:
    """The text in which what stands in the brackets after the name at `place` has the new order."""
    start = place + len(name) + 1
    for end in (found.start() for found in re.finditer(r"\)", text[start:])):
        parts = parts_of(text[start : start + end])
        if parts is not None:
            if len(parts) != len(order):
                raise _Unchanged
            return text[:start] + ", ".join(parts[one] for one in order) + text[start + end :]
    raise _Unchanged


def _arguments(text: str) -> Sequence[str] | None:
    try:
        call = syntax.parse_expression(f"f({text})").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(call, ast.Call) or call.keywords or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    return [ast.get_source_segment(f"f({text})", one) or "" for one in call.args]


def _parameters(text: str) -> Sequence[str] | None:
    try:
        syntax.parse(f"def f({text}): pass")
    except (SyntaxError, ValueError):
        return None
    parts, depth, begun = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(text[begun:place].strip())
            begun = place + 1
    return [*parts, text[begun:].strip()]


def _program_in_order(source: str, names: Collection[str], order: Sequence[int]) -> str:
    """The function's parameters, and the arguments of its calls under these names, in the new order."""
    tree = syntax.parse(source)
    called = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            node.args.args = [node.args.args[one] for one in order]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            called += 1
            if node.keywords or len(node.args) != len(order) or any(isinstance(one, ast.Starred) for one in node.args):
                raise _Unchanged
            node.args = [node.args[one] for one in order]
    if called < sum(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree)):
        raise _Unchanged  # it is handed on, to what calls it in the old order
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _test_in_order(test: TestCase, name: str, order: Sequence[int]) -> TestCase:
    match test:
        case CheckTest():
            return replace(test, code=_program_in_order(test.code, {name, "candidate"}, order))
        case CallTest():
            given = syntax.value(test.args)
            if isinstance(given, list) and len(given) == len(order):
                return replace(test, args=syntax.write([given[one] for one in order]))
    raise _Unchanged
