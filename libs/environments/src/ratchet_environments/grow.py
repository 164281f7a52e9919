"""New problems that a model proposes: a function with a docstring and assertions, as in Self-Instruct (Wang et al.
2023, arXiv:2212.10560), of which only what holds is kept.

A proposal is a problem once its solution passes its own assertions, its tests (with inputs near them, see
`strengthen`) reward no cheat and kill most mutants of the solution, and nothing known is nearly the same.
"""

import ast
import copy
import hashlib
from collections.abc import Sequence

from ratchet_environments.audit import audit
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.strengthen import strengthen
from ratchet_environments.task import Task
from ratchet_kit import syntax
from ratchet_kit.text import clip
from ratchet_problems import CallTest, CheckTest, InvalidProblem, Problem, shown_calls
from ratchet_problems.extraction import extract_code
from ratchet_problems.near.search import Known
from ratchet_problems.near.sketches import sketch

LEAST_ASSERTIONS = 2
LEAST_KILLED = 0.7
"""Share of the mutants of its solution that the tests of a problem kill."""
MOST_WEAKNESS = 1 - LEAST_KILLED
_LONGEST = 4_000
"""Characters of a proposal that are read."""
_LONGEST_SAID = 600
"""Characters of an example's docstring."""
_ASSERTIONS = 4
"""Shown of an example."""
_REQUEST = """Write one new programming problem for Python, about something else than the examples. Answer in the form
of the examples, in one code block: a function whose docstring says what it returns, its body, and below it {count}
assertions that call it.

{examples}"""


class Rejected(Exception):
    """A proposal that is no problem, in a few words, the same for all of one kind."""


def request(examples: Sequence[Problem]) -> str:
    """The message that asks for a problem. `examples`: those that `is_example` takes."""
    return _REQUEST.format(count=_ASSERTIONS, examples="\n\n".join(map(_as_example, examples)))


def is_example(problem: Problem) -> bool:
    """Its solution and tests can be shown."""
    return bool(problem.references and problem.entry_point.isidentifier() and shown_calls.arguments(problem))


def _as_example(problem: Problem) -> str:
    name, asserted = problem.entry_point, list[str]()
    for one in problem.tests:
        if isinstance(one, CallTest) and one.expected:
            asserted.append(f"assert {name}({one.args.strip()[1:-1].rstrip(',')}) == {one.expected}")
        elif isinstance(one, CheckTest):
            calls = ((", ".join(map(repr, given)), value) for given, value in shown_calls.compared(one.code, name))
            asserted += [f"assert {name}({given}) == {value}" for given, value in calls]
    source = _documented(problem.references[0].strip(), problem)
    return f"```python\n{source}\n\n" + "\n".join(asserted[:_ASSERTIONS]) + "\n```"


def _documented(source: str, problem: Problem) -> str:
    """The solution whose function has a docstring: where it has none, the first paragraph of the prompt."""
    try:
        tree = syntax.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    for one in tree.body:
        if isinstance(one, ast.FunctionDef) and one.name == problem.entry_point and not ast.get_docstring(one):
            said = " ".join(problem.prompt.strip().partition("\n\n")[0].split())
            one.body.insert(0, ast.Expr(ast.Constant(clip(said, _LONGEST_SAID))))
            return ast.unparse(ast.fix_missing_locations(tree))
    return source


def proposed(answer: str, source: str) -> Problem:
    """The problem of a model's answer: the function's head is its prompt. `source`: what it is from. Raises
    Rejected."""
    body = _statements(extract_code(answer)[:_LONGEST])
    functions = [one for one in body if isinstance(one, ast.FunctionDef)]
    heads = [one for one in functions if len((ast.get_docstring(one) or "").split()) >= 4]
    if not heads:
        raise Rejected("has no function with a docstring")
    head = heads[-1]
    if len(head.body) < 2:
        raise Rejected("has a function without a body")
    asserted = [node for one in body for node in ast.walk(one) if isinstance(node, ast.Assert)]
    checks = "\n".join(ast.unparse(one) for one in asserted)
    calls = list(shown_calls.compared(checks, head.name))
    if len({repr(given) for given, _ in calls}) < LEAST_ASSERTIONS:
        raise Rejected(f"has fewer than {LEAST_ASSERTIONS} assertions of values")
    reference = "\n\n".join(
        ast.unparse(one) for one in body if isinstance(one, ast.FunctionDef | ast.Import | ast.ImportFrom)
    )
    lines = ast.unparse(_with_body(head, head.body[:1])).splitlines()  # its docstring
    imports = [ast.unparse(one) for one in body if isinstance(one, ast.Import | ast.ImportFrom)]
    try:
        return Problem(
            id=f"grown-{hashlib.sha256(reference.encode()).hexdigest()[:16]}",
            prompt="\n".join([*imports, *lines]) + "\n",
            entry_point=head.name,
            tests=tuple(CallTest(syntax.write(list(given)), value) for given, value in calls),
            references=(f"{reference}\n",),
            source=source,
        )
    except InvalidProblem as error:
        raise Rejected("is no problem") from error


def _statements(code: str) -> list[ast.stmt]:
    """Reads the program up to where it is torn, or goes on in words."""
    lines = code.splitlines()
    ends = [len(lines), *(place for place in range(len(lines) - 1, 0, -1) if lines[place][:1].strip())]
    for end in ends:
        try:
            return syntax.parse("\n".join(lines[:end])).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    raise Rejected("is no Python")


def _with_body(head: ast.FunctionDef, body: list[ast.stmt]) -> ast.FunctionDef:
    found = copy.copy(head)
    found.body = body
    return found


async def sound(executor: Executor, problem: Problem) -> Problem:
    """The problem with the tests that it needs. Raises Rejected; Unavailable when the platform failed."""
    stronger = await strengthen(executor, Task.of(problem))
    if stronger.fault:
        raise Rejected("does not pass its own assertions")
    found = await audit(CodeEnvironment(executor), Task.of(stronger.problem))
    if found.fault or found.cheats or not found.mutants or found.weakness > MOST_WEAKNESS:
        raise Rejected("has tests that pass wrong programs")
    return stronger.problem


class Novelty:
    """Refuses what is nearly the same as something known."""

    def __init__(self, known: Sequence[Problem]) -> None:
        self._known = Known(sketch(known))
        self._added: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Raises Rejected for one that is nearly the same as what is known, which it then is."""
        drawn = sketch([problem])
        news = Known(sketch(self._added)) if self._added else None
        if any(self._known.matches(drawn)) or (news and any(news.matches(drawn))):
            raise Rejected("is nearly the same as another")
        self._added.append(problem)
