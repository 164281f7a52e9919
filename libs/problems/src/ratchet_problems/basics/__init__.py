"""A hundred basic problems, written by hand."""

from ratchet_problems.basics import dictionaries, lists, numbers, strings
from ratchet_problems.problem import Problem


def basic_problems() -> tuple[Problem, ...]:
    """All of them, by topic. The references are the functions' own source texts."""
    modules = (numbers, strings, lists, dictionaries)
    return tuple(problem for module in modules for problem in module.collection.problems())
