"""Which of the runtimes at hand a program gets, or the reason for none."""

import functools
import re
import sys
from dataclasses import replace

from ratchet_kit.errors import FailedPrecondition, FieldViolation, InvalidArgument, Unimplemented
from ratchet_problems import outline
from ratchet_problems.languages import language_of
from sandbox_service.domain import ended_tests
from sandbox_service.domain.capabilities import Capabilities, Runtime
from sandbox_service.domain.program import CheckTest, Program, StdioTest

_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([\w.]+(?:[ \t]*,[ \t]*[\w.]+)*)", re.MULTILINE)


def is_plain(program: Program) -> bool:
    """Whether any node has what it takes: the standard library, and nothing else. Most programs are like that."""
    return (
        program.language == "python"
        and not (program.runtime or program.processes)
        and not any(foreign_imports(text) for text in _texts(program))
    )


def _texts(program: Program) -> list[str]:
    return [program.source, *(test.code for test in program.tests if isinstance(test, CheckTest))]


def settle(program: Program, capabilities: Capabilities) -> Program:
    """The program with its language and runtime decided.

    Raises Unimplemented for what isn't here, FailedPrecondition for processes where they can't be held, InvalidArgument
    for tests that its language can't have.
    """
    language = language_of(program.language)
    if program.processes and not capabilities.processes:
        raise FailedPrecondition(
            "processes: programs may start processes only where they have a process namespace and a root of their own "
            "(level L2 or L3), and this node lacks these"
        )
    if language == "python":
        return replace(program, language=language, runtime=_python_runtime(program, capabilities).name)
    _require_language(language, capabilities)
    for index, test in enumerate(program.tests):
        if not (isinstance(test, StdioTest) or (isinstance(test, CheckTest) and test.shared)):
            what = f"is for Python: a program in {language} takes stdio tests, and check tests that are shared"
            field = f"program.tests[{index}]"
            raise InvalidArgument(f"{field}: {what}", [FieldViolation(field, what)])
        if isinstance(test, CheckTest) and ended_tests.marked(language, "", test.code) is None:
            what = f"must have a main function in {language}, or functions that {language}'s runner of tests takes"
            field = f"program.tests[{index}]"
            raise InvalidArgument(f"{field}: {what}", [FieldViolation(field, what)])
    if program.runtime not in ("", language):
        what = f"is not a runtime of {language}"
        raise InvalidArgument(f"program.runtime: {program.runtime!r} {what}", [FieldViolation("program.runtime", what)])
    return replace(program, language=language, runtime="")


def _require_language(language: str, capabilities: Capabilities) -> None:
    if any(runtime.language == language for runtime in capabilities.runtimes):
        return
    there = ", ".join(sorted({runtime.language for runtime in capabilities.runtimes}))
    remedy = capabilities.missing_languages.get(language)
    if not capabilities.processes:
        remedy = "other languages than Python need level L2 or L3, where programs can be held that start processes"
    raise Unimplemented(f"language {language!r} is not on this node{f': {remedy}' if remedy else ''}; it has {there}")


def _python_runtime(program: Program, capabilities: Capabilities) -> Runtime:
    """The one that's named; else the smallest that has all that's imported; else the first, and an import fails."""
    runtimes = [runtime for runtime in capabilities.runtimes if runtime.language == "python"]
    if program.runtime:
        for runtime in runtimes:
            if runtime.name == program.runtime:
                return runtime
        there = ", ".join(runtime.name for runtime in runtimes)
        raise Unimplemented(
            f"runtime {program.runtime!r} is not on this node; it has {there}. Where it is one that comes with Ratchet,"
            f" scripts/setup.sh sandbox-{program.runtime} builds it, and the sandbox finds it when it starts next"
        )
    if len(runtimes) == 1:
        return runtimes[0]
    known = frozenset().union(*(runtime.modules for runtime in runtimes))
    wanted = frozenset(name for text in _texts(program) for name in foreign_imports(text)) & known
    fitting = [runtime for runtime in runtimes if wanted <= runtime.modules]
    return min(fitting, key=lambda runtime: len(runtime.modules)) if fitting else runtimes[0]


def foreign_imports(source: str) -> frozenset[str]:
    """Top-level names of what the source imports, the standard library left out.

    The pattern finds candidates in a few microseconds; only where it finds some is the source read, since the words may
    stand in a text. A large source isn't: it would take long.
    """
    candidates = {name.strip().partition(".")[0] for match in _IMPORT.findall(source) for name in match.split(",")}
    if candidates <= sys.stdlib_module_names:
        return frozenset()
    imports = frozenset(candidates) if len(source) > outline.MOST else _imported(source)
    return imports - sys.stdlib_module_names


@functools.lru_cache(maxsize=256)
def _imported(source: str) -> frozenset[str]:
    return outline.imported(source)
