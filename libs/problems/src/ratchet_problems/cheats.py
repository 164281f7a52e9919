"""Programs that solve nothing: constants, echoes, the prompt's own examples, an object that equals everything.

Tests that one of them passes would reward it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ratchet_problems.languages import PYTHON
from ratchet_problems.problem import Problem, StdioTest
from ratchet_problems.shown_calls import expected, prompt_examples

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


def _called(problem: Problem) -> Iterator[Cheat]:
    values = Counter(expected(problem))
    for text in dict.fromkeys((*_PLAIN, *(text for text, _ in values.most_common(MOST_CONSTANTS)))):
        yield Cheat(f"always {text}", _define(problem.entry_point, f"return {text}"))
    for name, text in _ECHOES.items():
        yield Cheat(name, _define(problem.entry_point, f"return {text}"))
    yield Cheat("an object that equals everything", _EQUAL + _define(problem.entry_point, "return Equal()"))
    if examples := prompt_examples(problem):
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
