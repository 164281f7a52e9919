"""Honest programs that ship with the service: each must pass, whoever runs beside it and whoever ran before.

A file here holds those of one idiom or language: `CASES`, made by the functions below, in the API's own form. Each
passes in a plain interpreter or with the plain compiler: tests/integration/test_honest_plainly.py. A program that
answers "wrong" to the same tests must not pass: see `wrong`. A new idiom is a new file.
"""

import importlib
import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb

NEEDS_L2 = frozenset(
    {"machine/multiprocessing.pool.ThreadPool", "machine/multiprocessing.dummy", "machine/anonymous memory"}
)
"""Semaphores and shared memory take a root of one's own."""
Pair = tuple[tuple[object, ...], object]
"""The arguments of a call, and what comes back: both as literals can say them."""


def call(name: str, source: str, *tests: Pair | problem_pb2.CallTest, entry: str = "f", **more: Any) -> pb.Program:
    """Call tests. `more`: fields of the program, here and below."""
    made = [
        problem_pb2.CallTest(args=repr(list(test[0])), expected=repr(test[1])) if isinstance(test, tuple) else test
        for test in tests
    ]
    return pb.Program(
        id=name,
        source=_text(source),
        entry_point=entry,
        tests=[problem_pb2.Test(call=test) for test in made],
        **more,
    )


def raises(args: tuple[object, ...], name: str) -> problem_pb2.CallTest:
    return problem_pb2.CallTest(args=repr(list(args)), raises=name)


def unordered(args: tuple[object, ...], expected: object) -> problem_pb2.CallTest:
    return problem_pb2.CallTest(args=repr(list(args)), expected=repr(expected), unordered=True)


def check(
    name: str, source: str, code: str, *, entry: str = "f", names: Sequence[str] = (), shared: bool = False, **more: Any
) -> pb.Program:
    """One check test, which uses `names` of the program beside its entry point. `shared`: it can't be kept apart."""
    kinds = problem_pb2.CheckTest
    grading = kinds.GRADING_SHARED if shared else kinds.GRADING_STRICT
    test = problem_pb2.Test(check=kinds(code=_text(code), names=names, grading=grading))
    return pb.Program(id=name, source=_text(source), entry_point=entry, tests=[test], **more)


def stdio(name: str, source: str, stdin: str, stdout: str, language: str = "", **more: Any) -> pb.Program:
    """One stdio test. Python unless said."""
    test = problem_pb2.Test(stdio=problem_pb2.StdioTest(stdin=stdin, expected_stdout=stdout))
    return pb.Program(id=name, source=_text(source), tests=[test], language=language, **more)


def _text(source: str) -> str:
    """Text that begins with an empty line is indented as its file is; any other is taken as it stands."""
    return textwrap.dedent(source[1:]) if source.startswith("\n") else source


@cache
def cases() -> tuple[pb.Program, ...]:
    """In the order of their files; the ids are "FILE/NAME"."""
    found = []
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem != "__init__":
            for case in importlib.import_module(f"{__name__}.{path.stem}").CASES:
                named = pb.Program()
                named.CopyFrom(case)
                named.id = f"{path.stem}/{case.id}"
                found.append(named)
    return tuple(found)


def wrong(case: pb.Program) -> pb.Program | None:
    """The same tests, and a program that answers "wrong". None for other languages: there the output alone decides."""
    if case.language:
        return None
    owner, _, method = case.entry_point.rpartition(".")
    answer = f"def {method}(*_, **__):\n    return 'wrong'\n" if method else "print('wrong')\n"
    made = pb.Program()
    made.CopyFrom(case)
    made.source = f"class {owner}:\n" + textwrap.indent(answer, "    ") if owner else answer
    return made
