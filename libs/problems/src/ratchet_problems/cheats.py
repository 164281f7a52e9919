"""Programs that solve nothing: constants, echoes, the prompt's own examples, an object that equals everything.

Tests that one of them passes would reward it.
"""

import ast
import doctest
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ratchet_kit import syntax
from ratchet_problems.languages import PYTHON
from ratchet_problems.problem import CallTest, CheckTest, Problem, StdioTest

MOST_CONSTANTS = 5
"""Expected values that are tried as the only answer, the commonest first."""
_PLAIN = ("None", "True", "False", "0", "1", "-1", "''", "[]", "{}")
_ECHOES = {"its first argument": "args[0]", "it sorted": "sorted(args[0])", "its length": "len(args[0])"}
_EQUAL = """class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    def __hash__(self): return 0
    def __bool__(self): return True
    def __len__(self): return 1
    def __iter__(self): return iter(())
    def __getattr__(self, name): return lambda *args, **kwargs: self


"""


@dataclass(frozen=True, slots=True)
class Cheat:
    name: str
    """For people: "always 0"."""
    source: str


def cheats(problem: Problem) -> list[Cheat]:
    """Cheats in the problem's form: a function, a method, or a program that prints. There are no cheats of classes, and
    in other languages than Python."""
    if problem.language != PYTHON:
        return []
    if not problem.entry_point:
        return list(_printed(problem))
    if "." not in problem.entry_point and _is_class(problem):
        return []
    return list(_called(problem))


def calls_of(problem: Problem) -> list[list[Any]]:
    """The arguments of the calls that its tests show, each as a list of values."""
    found: list[list[Any]] = []
    for test in problem.tests:
        match test:
            case CallTest(args=args):
                given = syntax.value(args)
                found += [given] if isinstance(given, list) else []
            case CheckTest(code=code):
                found += [list(given) for given, _ in _compared(code, problem.entry_point)]
    return found


def _called(problem: Problem) -> Iterator[Cheat]:
    expected = Counter(_expected(problem))
    for text in dict.fromkeys((*_PLAIN, *(text for text, _ in expected.most_common(MOST_CONSTANTS)))):
        yield Cheat(f"always {text}", _define(problem.entry_point, f"return {text}"))
    for name, text in _ECHOES.items():
        yield Cheat(name, _define(problem.entry_point, f"return {text}"))
    yield Cheat("an object that equals everything", _EQUAL + _define(problem.entry_point, "return Equal()"))
    if examples := _examples(problem):
        table = "{" + ", ".join(f"{args!r}: {value}" for args, value in examples.items()) + "}"
        yield Cheat("the prompt's examples by heart", _define(problem.entry_point, f"return {table}.get(repr(args))"))
    if problem.references and "raise" in problem.references[0] and "." not in problem.entry_point:
        yield Cheat("the reference, its exceptions swallowed", _swallowing(problem))


def _printed(problem: Problem) -> Iterator[Cheat]:
    tests = [test for test in problem.tests if isinstance(test, StdioTest)]
    yield Cheat("prints nothing", "pass\n")
    yield Cheat("prints its input", "import sys\nprint(sys.stdin.read())\n")
    for text, _ in Counter(test.expected_stdout for test in tests).most_common(MOST_CONSTANTS):
        yield Cheat(f"always prints {text.strip()[:20]!r}", f"print({text!r})\n")


def _define(entry_point: str, body: str) -> str:
    owner, _, name = entry_point.rpartition(".")
    if not owner:
        return f"def {name}(*args, **kwargs):\n    {body}\n"
    return f"class {owner}:\n    def {name}(self, *args, **kwargs):\n        {body}\n"


def _swallowing(problem: Problem) -> str:
    name = problem.entry_point
    return (
        f"{problem.references[0]}\n_before = {name}\n\n\ndef {name}(*args, **kwargs):\n"
        "    try:\n        return _before(*args, **kwargs)\n    except BaseException:\n        return None\n"
    )


def _is_class(problem: Problem) -> bool:
    return any(f"class {problem.entry_point}" in text for text in (*problem.references, problem.prompt))


def _expected(problem: Problem) -> Iterator[str]:
    """Literals that the tests expect."""
    for test in problem.tests:
        match test:
            case CallTest(expected=text) if text:
                yield text
            case CheckTest(code=code):
                yield from (value for _, value in _compared(code, problem.entry_point))


def _examples(problem: Problem) -> Mapping[str, str]:
    """The value of each call in the prompt, by the repr of its arguments: doctest's examples, and assertions."""
    found: dict[str, str] = {}
    try:
        examples = doctest.DocTestParser().get_examples(problem.prompt)
    except ValueError:  # torn ones
        examples = []
    for example in examples:
        for want in (example.want.partition("\n")[0], example.want):  # words may follow
            found |= _by_repr(_compared(f"assert {example.source.strip()} == ({want.strip()})", problem.entry_point))
    for line in problem.prompt.splitlines():
        if line.strip().startswith("assert "):
            found |= _by_repr(_compared(line.strip(), problem.entry_point))
    return found


def _by_repr(calls: Iterable[tuple[tuple[Any, ...], str]]) -> dict[str, str]:
    return {repr(given): value for given, value in calls}


def _compared(code: str, entry_point: str) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The arguments, and the literal, of each `f(arguments) == literal`."""
    try:
        tree = syntax.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    names = {entry_point.rpartition(".")[2], "candidate"}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=ast.Call(func=called, args=args, keywords=[]), ops=[ast.Eq()], comparators=[value]):
                name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
                if name in names:
                    try:
                        given = tuple(syntax.value(ast.unparse(one)) for one in args)
                        yield given, repr(syntax.value(ast.unparse(value)))
                    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                        continue
