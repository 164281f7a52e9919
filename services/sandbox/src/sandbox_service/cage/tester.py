"""Opaque test code in two processes: one holds the program, the other the tests.

Plain values cross as copies. What isn't plain stays where it is, and the tests hold a proxy: `proxies.py`. The
tester alone says how the tests ended, on a pipe that the program's process never had.

Tests are plain asserts, `check(candidate)`, classes of unittest, or functions `test_...` without arguments.
"""

# ruff: noqa: BLE001 (programs and tests may raise anything, and whatever they raise is an answer)

import socket
import sys
import types
from typing import Any

import owner
import proxies
import runner
import wire


class NothingTested(Exception):
    """The test code holds test classes, and no test."""


def serve_program(frames: wire.Frames, source: str, entry_point: str) -> int:
    """In the program's process: answers calls until the tester hangs up."""
    code = runner.compile_program(source, frames)
    if code is None:
        return 1
    try:
        module = runner.load(code, "program")
        entry = runner.find(module, entry_point)
    except BaseException as error:
        runner.report(error, frames)
        return 1
    frames.send("loaded")
    owner.Owner(socket.socket(fileno=wire.CHANNEL_FD), module, entry).serve()
    runner.flush()
    return 0


def run_tests(frames: wire.Frames, tests: str, entry_point: str, call_check: bool) -> int:
    """In the tester's process. Frames: passed | failed, raised or broken, with type and message | gone | garbled."""
    try:
        program = proxies.Program(socket.socket(fileno=wire.CHANNEL_FD))
        names = program.names(entry_point)
        entry = program.entry
        _prepare(names, tests)
        namespace = {"__name__": "tests", **names, "candidate": entry}
        exec(compile(tests, "tests.py", "exec", dont_inherit=True), namespace)
        check = namespace.get("check")
        if call_check and isinstance(check, types.FunctionType) and check is not names.get("check"):
            check(entry)
        else:
            _run_collected(namespace, names)
    except proxies.ProgramGone:
        frames.send("gone")
    except proxies.Garbled:
        frames.send("garbled")
    except AssertionError as error:
        frames.send("raised" if hasattr(error, "from_program") else "failed", *runner.describe(error))
    except BaseException as error:
        frames.send("raised" if hasattr(error, "from_program") else "broken", *runner.describe(error))
    else:
        frames.send("passed")
    return 0


def _prepare(names: dict[str, object], code: str) -> None:
    """Many test files come by the program with `from solution import f`, and end with `unittest.main()`."""
    if "unittest" in code:
        import unittest

        unittest.main = lambda *_, **__: None  # type: ignore[assignment]
    module = types.ModuleType("solution")
    module.__dict__.update(names)
    for name in ("solution", "program"):
        sys.modules[name] = module


def _run_collected(namespace: dict[str, object], names: dict[str, object]) -> None:
    """Classes of unittest and functions named test_..., in the order of the text; the first that fails raises."""
    own = [item for name, item in namespace.items() if item is not names.get(name)]
    unittest = sys.modules.get("unittest")
    cases = [item for item in own if unittest and isinstance(item, type) and issubclass(item, unittest.TestCase)]
    functions = [
        item
        for item in own
        if isinstance(item, types.FunctionType) and item.__name__.startswith("test_") and not item.__code__.co_argcount
    ]
    for function in functions:
        try:
            function()
        except Exception as error:
            raise _with_name(error, function.__name__) from None
    if unittest and cases:
        _run_cases(unittest, cases)


def _run_cases(unittest: types.ModuleType, cases: list[type]) -> None:
    """Raises what the first test raised that didn't succeed, with its name; a test that was skipped counts as none."""
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases)
    result = _first_failure(unittest)
    suite.run(result)
    if result.error is not None:
        raise result.error
    if result.testsRun == len(result.skipped):
        raise NothingTested("no test ran")


def _first_failure(unittest: types.ModuleType) -> Any:
    class Result(unittest.TestResult):  # type: ignore[name-defined,misc]
        """Stops at the first failure, and keeps the exception itself."""

        error: BaseException | None = None

        def addError(self, test: object, err: tuple[Any, ...]) -> None:
            self._keep(test, err[1])

        def addFailure(self, test: object, err: tuple[Any, ...]) -> None:
            self._keep(test, err[1])

        def addSubTest(self, test: object, subtest: object, err: tuple[Any, ...] | None) -> None:
            if err is not None:
                self._keep(subtest, err[1])

        def addUnexpectedSuccess(self, test: object) -> None:
            self._keep(test, AssertionError("unexpected success"))

        def _keep(self, test: object, error: BaseException) -> None:
            if self.error is None:
                self.error = _with_name(error, str(getattr(test, "_testMethodName", test)))
            self.stop()

    return Result()


def _with_name(error: BaseException, name: str) -> BaseException:
    """The exception with the test's name before its message, where it has a plain one."""
    if isinstance(error, Exception) and len(error.args) <= 1:
        error.args = (f"{name}: {error}" if error.args else name,)
    return error
