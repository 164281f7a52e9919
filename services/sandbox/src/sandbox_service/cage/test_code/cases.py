"""Test code's classes of unittest: run one by one, and whatever fails in them is known, whichever runner ran it."""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from sandbox_service.cage.objects import equality
from sandbox_service.cage.own_pytest import little_pytest, outcomes
from sandbox_service.cage.test_code import counting

_COROUTINE = 0x80  # of a code's flags


def prepare(count: counting.Count) -> None:
    """Test files may end with unittest.main(), which must not end the process. What fails is counted here, whichever
    runner ran it."""
    import unittest

    class Failure(AssertionError, metaclass=_Failure):
        def __init__(self, *message: object) -> None:
            super().__init__(*message)
            count.note(self)

    Failure.__name__ = Failure.__qualname__ = "AssertionError"
    unittest.TestCase.failureException = Failure
    raises: Any = type(unittest.TestCase().assertRaises(Exception))  # noqa: PT027 (the class is wanted)
    leave = raises.__exit__

    def leave_and_forgive(self: Any, kind: Any, error: Any, trace: Any) -> Any:
        expected = leave(self, kind, error, trace)
        if expected:
            count.forgive(error)
        return expected

    raises.__exit__ = leave_and_forgive

    def of_identities(name: str) -> Any:
        compare = getattr(unittest.TestCase, name)
        return lambda self, one, other, msg=None: compare(self, equality.identity(one), equality.identity(other), msg)

    for name in ("assertIs", "assertIsNot"):
        setattr(unittest.TestCase, name, of_identities(name))
    unittest.main = lambda *_, **__: _Main()  # type: ignore[assignment]

    def failing(name: str) -> Callable[..., None]:
        before = getattr(unittest.TestResult, name)

        def method(self: Any, test: Any, *more: Any) -> None:
            error = more[-1][1] if more and more[-1] else None
            if name == "addUnexpectedSuccess":
                error = AssertionError("unexpected success")
            if error is not None and _failed_case is None and not isinstance(error, little_pytest.Skipped):
                _fail_case(outcomes.with_name(error, str(getattr(test, "_testMethodName", test))))
            before(self, test, *more)

        return method

    for name in ("addError", "addFailure", "addSubTest", "addUnexpectedSuccess"):
        setattr(unittest.TestResult, name, failing(name))
    unittest.TestResult.addExpectedFailure = lambda self, test, err: count.forgive(err[1])  # type: ignore[method-assign]


class _Main:
    """What `unittest.main` gives: the tests run when their result is asked for, or else with all others."""

    @functools.cached_property
    def result(self) -> Any:
        import unittest

        result = unittest.TestResult()
        for item in list(vars(sys.modules["__main__"]).values()):
            if isinstance(item, type) and issubclass(item, unittest.TestCase) and item.__module__ == "__main__":
                _suite(unittest, item).run(result)
                _have_run.add(item)
        return result


class _Failure(type):
    """Of unittest's failures: to its runner every AssertionError is one."""

    def __instancecheck__(cls, it: object) -> bool:
        return isinstance(it, AssertionError)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, AssertionError)


_have_run: set[type] = set()  # at the word of the test code
_failed_case: BaseException | None = None  # what a test of unittest raised, whichever runner ran it


def _fail_case(error: BaseException) -> None:
    global _failed_case
    _failed_case = error


def raise_failed() -> None:
    """What a test of unittest raised, whichever runner ran it."""
    if _failed_case is not None:
        raise _failed_case


def run(unittest: types.ModuleType, case: type) -> bool:
    """Raises what the first test raised that didn't succeed, with its name."""
    if case in _have_run:
        raise_failed()
        return True
    result = unittest.TestResult()
    result.failfast = True
    _suite(unittest, case).run(result)
    raise_failed()
    return bool(result.testsRun > 0)


def _suite(unittest: types.ModuleType, case: type) -> Any:
    for name in unittest.defaultTestLoader.getTestCaseNames(case):
        code = getattr(getattr(case, name), "__code__", None)
        if code and code.co_flags & _COROUTINE and not hasattr(case, "asyncSetUp"):
            what = f"{case.__name__}.{name} is async, and a plain TestCase never awaits it"
            raise little_pytest.Unsupported(f"{what}: IsolatedAsyncioTestCase does")
    return unittest.defaultTestLoader.loadTestsFromTestCase(case)
