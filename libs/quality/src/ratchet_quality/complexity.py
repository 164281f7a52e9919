"""How many ways lead through a program."""

from functools import lru_cache

from radon.visitors import ComplexityVisitor

from ratchet_kit import syntax
from ratchet_problems import Problem
from ratchet_quality.score import Score, Unreadable, reference, within

SIMPLE = 5
"""Up to here radon ranks a block A, "low - simple block"."""


def complexity(source: str, problem: Problem, allowed: float = 0) -> Score:
    """McCabe's cyclomatic complexity (IEEE TSE 2(4), 1976), by radon, of the most complex function or of the top level,
    against the reference's, or SIMPLE where that is more, or what is `allowed` where that is given: 1 up to as many,
    0.5 for twice as many. Raises Unreadable."""
    found = _most(source)
    allowed = allowed or max(_most(reference(problem)) if problem.references else 0, SIMPLE)
    return Score(within(found, allowed), f"cyclomatic complexity {found}; {allowed:g} is allowed")


@lru_cache(maxsize=256)  # samples share their reference
def _most(source: str) -> int:
    try:
        visitor = ComplexityVisitor.from_ast(syntax.parse(source))
    except (SyntaxError, ValueError) as error:
        raise Unreadable(f"no Python: {str(error)[:100]}") from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable("nested too deeply to be read") from error
    # what is inside of a function counts with it, and methods by themselves
    blocks = [*visitor.functions, *(method for one in visitor.classes for method in one.methods)]
    return max([int(visitor.complexity), *(int(block.complexity) for block in blocks)])
