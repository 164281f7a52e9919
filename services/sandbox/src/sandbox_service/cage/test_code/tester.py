"""Opaque test code against a program, in one of two kinds.

Apart (`serve_program`, `run_tests`): one process holds the program, the other the tests. What crosses between them is
in proxies.py. The tester alone says how the tests ended, on a pipe that the program's process never had.

Beside (`run_beside`): both in one process, as if pasted together, for tests that can't be kept apart. The program could
say what it likes there: what comes of it is labelled forgeable.

How they end: passed | failed, raised or broken, with type and message | gone | garbled | slow | unable, with a reason:
the tests can judge no program. That is said only as long as the program was asked nothing: it has no part in it.
"""

# ruff: noqa: BLE001 (programs and tests may raise anything, and whatever they raise is an answer)

import _socket
import builtins
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from sandbox_service.cage.objects import owner, proxies, reports, series
from sandbox_service.cage.own_pytest import little_pytest, patches
from sandbox_service.cage.run import runner
from sandbox_service.cage.test_code import bundled, collect, counting, foreign
from sandbox_service.cage.wire import wire
from sandbox_service.cage.wire.errors import CannotCross

_MORE_CALLS = 500
_LENT = "@lent"  # no name of a program
_IMPORTS = ("import solution", "import program", "from solution ", "from program ")


def serve_program(frames: wire.Frames, source: str, entry_point: str) -> int:
    """In the program's process: answers calls until the tester hangs up."""
    code = runner.compile_program(source, frames, before_error=lambda: os.close(wire.CHANNEL_FD))
    if code is None:
        return 1
    side: owner.Owner | None = None
    seen = reports.Reports(lambda *what: side.read(*what) if side else None)
    seen.install(source)
    try:
        module = runner.load(code, "program", source)
        entry = runner.find(module, entry_point)
    except BaseException as error:
        runner.report(error, frames)
        return 1
    frames.send("loaded")
    side = owner.Owner(_socket.socket(fileno=wire.CHANNEL_FD), module, entry)
    side.serve(seen)
    runner.flush()
    return 0


def compile_tests(frames: wire.Frames, tests: str) -> int:
    """In a process without a program, where nothing of the tests is run: what `run_tests` takes as `compiled`."""
    try:
        frames.send("value", 0, counting.to_bytes(tests).hex())
    except BaseException as error:
        frames.send("error", *runner.describe(error))
        return 1
    return 0


def run_tests(
    frames: wire.Frames,
    tests: str,
    compiled: bytes,
    entry_point: str,
    call_check: bool,
    names: Sequence[str],
    modules: Sequence[str],
    unknown: str,
    modules_given: dict[str, str],
    source: str,
    seconds: float,
) -> int:
    """In the tester's process. `compiled`: what `compile_tests` gave, or nothing. `names`: what the tests may use of
    the program beside its entry point. `modules`: of the library, what they use without importing it. `unknown`: what
    they use and nobody gives. `modules_given`: texts of modules that come with the problem, by their files' names.
    `source`: the program's text, for tests that look at it, or nothing. `seconds`: of CPU time that it may take."""
    # where the two call each other without an end, it's the program that gives up
    sys.setrecursionlimit(sys.getrecursionlimit() + _MORE_CALLS)
    program = proxies.Program(_socket.socket(fileno=wire.CHANNEL_FD), tests, seconds)
    wanted = (entry_point.partition(".")[0], *names)
    missing: list[str] = []

    series.install(sys.modules)
    patches.are_apart(tests)
    if ".__" in tests:
        _refuse_what_is_no_truth()
    foreign.refuse(lambda: program.asked, (tests, *modules_given.values()))

    def judge(count: counting.Count) -> None:
        given = program.names(entry_point, wanted)
        missing.extend(name for name in names if name not in given)
        if unknown:
            raise NameError(f"{unknown!r} is neither defined nor imported, nor declared as the program's (names)")
        _lend(program, given, source)
        bundled.Modules(modules_given).install()
        module = types.ModuleType("__main__")
        vars(module).update({name: __import__(name) for name in modules} | _without_import(given, tests, program.entry))
        program.tests = vars(module)
        collect.Collector(module, tests, program.entry, call_check, count, compiled).run()

    end = _end(
        judge, lambda: program.asked, lambda error: _is_the_programs(error, missing), lambda: program.lends_types
    )
    if end == ("passed",) and program.vanished.any():
        end = ("failed", "", "the program raised an exception that ended a loop of the tests")
    if end == ("passed",) and (refusal := program.orders.refusal()):
        end = ("broken", *runner.describe(refusal))
    frames.send(*end)
    return 0


def run_beside(frames: wire.Frames, source: str, tests: str, entry_point: str, call_check: bool) -> int:
    """In the program's process, which judges itself."""
    code = runner.compile_program(source, frames)
    if code is None:
        return 1
    try:
        module = runner.load(code, "program", source)
        entry = runner.find(module, entry_point)
    except BaseException as error:
        runner.report(error, frames)
        return 1
    frames.send("loaded")
    sys.modules["solution"] = module
    series.install(sys.modules)

    def judge(count: counting.Count) -> None:
        collect.Collector(module, tests, entry, call_check, count).run()

    frames.send("tests", *_end(judge, lambda: True, _is_from_program))  # nobody counts what is asked here
    runner.flush()
    return 0


class _Solution(types.ModuleType):
    """The program as a module: what it holds as plain values is looked up again each time, as these may change."""

    def __init__(self, program: proxies.Program, given: dict[str, Any]) -> None:
        super().__init__("solution")
        plain = {name for name, item in given.items() if proxies.is_plain(item)}
        vars(self).update(given | {_LENT: (program, plain, frozenset(given))})

    def __getattribute__(self, name: str) -> Any:
        held = super().__getattribute__("__dict__")
        program, plain, _ = held.get(_LENT, (None, (), ()))
        if name in plain:
            held.update(program.constant(name))
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self)[_LENT][2]:
            raise CannotCross(f"a test sets {name!r} of the program")
        super().__setattr__(name, value)


def _lend(program: proxies.Program, given: dict[str, Any], source: str) -> None:
    """Many test files come by the program with `from solution import f`."""
    module = _Solution(program, given)
    if source:
        import linecache

        vars(module)["__file__"] = runner.FILE
        linecache.cache[runner.FILE] = (len(source), None, runner.Source(source).lines(), runner.FILE)
    for name in ("solution", "program"):
        sys.modules[name] = module


def _without_import(given: dict[str, Any], tests: str, entry: object) -> dict[str, Any]:
    """Leaves out names that the tests do not mean. Where they import some of it, the name of a builtin is
    Python's own: `import solution as ops`, `ops.filter`, `filter`."""
    of_builtins = {name for name, item in given.items() if hasattr(builtins, name) and item is not entry}
    if not of_builtins or not any(line.lstrip().startswith(_IMPORTS) for line in tests.splitlines()):
        return given
    return {name: item for name, item in given.items() if name not in of_builtins}


def _refuse_what_is_no_truth() -> None:
    """`assert f(1).__eq__(2)` holds where `__eq__` says that it doesn't know; from Python 3.14 on that's an error."""
    import warnings

    warnings.filterwarnings("error", "NotImplemented should not be used", DeprecationWarning)


def _end(
    judge: Callable[[counting.Count], None],
    was_used: Callable[[], bool],
    is_the_programs: Callable[[BaseException], bool],
    lends_types: Callable[[], bool] = lambda: False,
) -> tuple[str, ...]:
    count = counting.Count(was_used, is_the_programs)
    count.install()
    try:
        judge(count)
    except proxies.ProgramGone:
        return ("gone",)
    except proxies.Garbled:
        return ("garbled",)
    except series.TooSlow as error:
        return ("slow", str(error))
    except BaseException as error:
        if is_the_programs(error):
            return ("raised", *runner.describe(error))
        if _is_the_tests(error, was_used(), lends_types()):
            return ("unable", f"the test code raised {': '.join(filter(None, runner.describe(error)))}")
        failed = isinstance(error, AssertionError)
        return ("failed" if failed else "broken", *runner.describe(error))
    if not was_used():
        return ("unable", "the test code never called the program")
    if count.failed:
        first = next(iter(count.failed.values()))
        return ("failed", "AssertionError", f"{first} of the tests, which caught it")
    if not count.compared:
        return ("failed", "", "the test code compared nothing with what the program answered")
    return ("passed",)


def _is_the_tests(error: BaseException, used: bool, has_types: bool) -> bool:
    """Whether it's the tests' own fault, whatever the program is: it lies before the first question, and not in what
    both share: a folder, memory, types of the program's that are used without a question; or it can be no program's."""
    if isinstance(error, little_pytest.Unsupported | ModuleNotFoundError):
        return True
    if used or isinstance(error, OSError | MemoryError):
        return False
    return not has_types or isinstance(error, NameError)


def _is_the_programs(error: BaseException, missing: Sequence[str]) -> bool:
    """What the program raised, or that it lacks a name that the problem declares."""
    if hasattr(error, "from_program"):
        return True
    lacks = getattr(error, "name", None)
    if isinstance(error, ImportError):
        return lacks in ("solution", "program") and any(f"'{name}'" in str(error) for name in missing)
    return isinstance(error, NameError | AttributeError) and lacks in missing


def _is_from_program(error: BaseException) -> bool:
    """Whether the last of the two in its trace, tests and program, is the program."""
    last, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in ("program.py", "tests.py"):
            last = name
        trace = trace.tb_next
    return last == "program.py"
