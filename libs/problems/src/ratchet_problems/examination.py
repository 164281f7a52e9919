"""The faults of a problem as it is read, before anything runs: tests that are no Python or never call the
program, and references without the entry point.

A fault is certain: what only may be wrong is left to `ratchet benchmarks verify`, which runs the references.
"""

import ast
import re
import symtable
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from ratchet_kit import syntax
from ratchet_problems import jsonl
from ratchet_problems.extraction import program_of
from ratchet_problems.languages import PYTHON
from ratchet_problems.problem import CheckTest, Problem, StdioTest, TestCase

_NAMED = 5
"""As many problems a sentence names."""
_DECIMAL = re.compile(r"(?=.*[.eE])[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""As the sandbox compares with a tolerance."""
_PROGRAM = ("solution", "program")
"""The modules by which test code may import from the program."""
_GIVEN = "candidate"
"""Common names in tests for the program that they are given."""
_ANY_NAME = ("exec", "globals", "setattr", "vars", "locals")
"""Constructs that may define a name that is nowhere to be read."""


def examine(problem: Problem) -> str:
    """The first fault, as "tests[0].check: ..."; empty without one."""
    if not problem.tests:
        return "tests: missing; only SFT learns from references alone"
    if problem.language != PYTHON or problem.answers:
        return ""
    for place, test in enumerate(problem.tests):
        if isinstance(test, CheckTest) and (fault := _fault_of_check(test, problem)):
            return f"tests[{place}].check: {fault}"
    for place, reference in enumerate(problem.references):
        fault = _fault_of_reference(reference, problem.entry_point)
        if fault and _fault_of_reference(_as_answer(reference, problem), problem.entry_point):
            return f"references[{place}]: {fault}"
    return ""


def faults_of(problems: Iterable[Problem], path: Path) -> tuple[str, ...]:
    """Faults of a set's problems, MOST_FAULTS at most, of a JSONL file with their lines:
    "good.jsonl line 10, sums/3: tests[0].check: ..."."""
    found = ((problem, fault) for problem in problems if (fault := examine(problem)))
    named = list(islice(found, jsonl.MOST_FAULTS))
    lines = _lines(path) if named and path.suffix == ".jsonl" else {}
    places = (f"{path.name} line {lines[one.id]}, " if one.id in lines else "" for one, _ in named)
    return tuple(f"{place}{one.id}: {fault}" for place, (one, fault) in zip(places, named, strict=True))


def _lines(path: Path) -> dict[str, int]:
    """The lines of a file's problems, by their ids."""
    found = {}
    for number, line in jsonl.numbered_lines(path):
        default = f"{path.stem}/{number}"
        found[jsonl.parse(line, path.name, default_id=default).id] = number
    return found


def notices(problems: Iterable[Problem]) -> tuple[str, ...]:
    """What is no fault, and may fail right programs: a sentence each."""
    exact = [problem.id for problem in problems if any(map(_wants_exact_decimals, problem.tests))]
    if not exact:
        return ()
    more = f" and {len(exact) - _NAMED} more" if len(exact) > _NAMED else ""
    return (
        f"tests expect decimals on standard output, and only the same digits pass: {', '.join(exact[:_NAMED])}{more}. "
        'To accept close values set a "tolerance" beside expected_stdout, such as 1e-6',
    )


def _wants_exact_decimals(test: TestCase) -> bool:
    return (
        isinstance(test, StdioTest)
        and test.tolerance is None
        and any(map(_DECIMAL.fullmatch, test.expected_stdout.split()))
    )


def _as_answer(reference: str, problem: Problem) -> str:
    """It may go on with its prompt, as an answer may, or be fenced."""
    return program_of(problem, reference)


def _fault_of_check(test: CheckTest, problem: Problem) -> str:
    try:
        tree = syntax.parse(test.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"is not valid Python: {error}"
    if test.shared or _uses(tree, {*problem.entry_point.split("."), *test.names, _GIVEN} - {""}):
        return ""
    return "never calls the program"


def _uses(tree: ast.Module, names: set[str]) -> bool:
    """Whether it has a name of the program, imports from it, or uses what its `check` is given. Texts count, too: they
    may be examples of doctest, or be evaluated."""
    for node in _nodes(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                if name in names:
                    return True
            case ast.Constant(value=str(text)):
                if any(name in text for name in names):
                    return True
            case ast.ImportFrom(module=module):
                if module in _PROGRAM:
                    return True
            case ast.Import(names=modules):
                if any(module.name in _PROGRAM for module in modules):
                    return True
            case ast.FunctionDef(name="check", args=args) | ast.AsyncFunctionDef(name="check", args=args):
                given = {arg.arg for arg in (*args.posonlyargs, *args.args)}
                if any(isinstance(inner, ast.Name) and inner.id in given for inner in ast.walk(node)):
                    return True
    return False


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """As ast.walk, each test whole before the next: the first one that calls the program says enough."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        left += [*ast.iter_child_nodes(node)][::-1]


def _fault_of_reference(reference: str, entry_point: str) -> str:
    name = entry_point.split(".")[0]
    try:
        if not name or _binds(syntax.symbols(reference), name) or _may_define_any(syntax.parse(reference)):
            return ""
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"is not valid Python: {error}"
    return f"does not define {name}"


def _binds(table: symtable.SymbolTable, name: str) -> bool:
    try:
        symbol = table.lookup(name)
    except KeyError:
        return False
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _may_define_any(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id in _ANY_NAME)
        or (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names))
        or isinstance(node, ast.Global)
        for node in ast.walk(tree)
    )
