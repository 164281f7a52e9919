"""Calls of the entry point that tests and prompts show, and what they expect, as literals."""

import ast
import doctest
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ratchet_kit import syntax
from ratchet_problems.problem import CallTest, CheckTest, Problem


def arguments(problem: Problem) -> list[list[Any]]:
    """The arguments of the calls that its tests show, each as a list of values."""
    found: list[list[Any]] = []
    for test in problem.tests:
        match test:
            case CallTest(args=args):
                given = syntax.value(args)
                found += [given] if isinstance(given, list) else []
            case CheckTest(code=code):
                found += [list(given) for given, _ in compared(code, problem.entry_point)]
    return found


def expected(problem: Problem) -> Iterator[str]:
    """Literals that the tests expect."""
    for test in problem.tests:
        match test:
            case CallTest(expected=text) if text:
                yield text
            case CheckTest(code=code):
                yield from (value for _, value in compared(code, problem.entry_point))


def prompt_examples(problem: Problem) -> Mapping[str, str]:
    """The value of each call in the prompt, by the repr of its arguments: doctest's examples, and assertions."""
    found: dict[str, str] = {}
    try:
        examples = doctest.DocTestParser().get_examples(problem.prompt)
    except ValueError:  # torn ones
        examples = []
    for example in examples:
        for want in (example.want.partition("\n")[0], example.want):  # words may follow
            found |= _by_repr(compared(f"assert {example.source.strip()} == ({want.strip()})", problem.entry_point))
    for line in problem.prompt.splitlines():
        if line.strip().startswith("assert "):
            found |= _by_repr(compared(line.strip(), problem.entry_point))
    return found


def _by_repr(calls: Iterable[tuple[tuple[Any, ...], str]]) -> dict[str, str]:
    return {repr(given): value for given, value in calls}


def compared(code: str, entry_point: str) -> Iterator[tuple[tuple[Any, ...], str]]:
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
