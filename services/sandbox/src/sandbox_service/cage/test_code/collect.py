"""What test code holds to run, and running it: the same for tests apart from the program and tests beside it.

In this order: the file itself as a script (`__name__` is "__main__"), `check(candidate)`, functions `test...` and
classes `Test...` as pytest runs them, classes of unittest. Where there's none of these, the examples in its docstrings.
The first test that fails raises.
"""

# ruff: noqa: BLE001 (tests may raise anything)

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox_service.cage.own_pytest import arguments, fixtures, little_pytest, outcomes
from sandbox_service.cage.test_code import cases, counting, examples


class LeftWith(AssertionError):
    """The script of the tests ended with a status that isn't 0."""


class Collector:
    """One text of test code in a module."""

    def __init__(
        self,
        module: types.ModuleType,
        code: str,
        entry: object,
        call_check: bool,
        count: counting.Count,
        compiled: bytes = b"",
    ) -> None:
        """`module`: holds what the tests may use of the program, and becomes `__main__`. `compiled`: the code, if it
        was compiled before."""
        self._count, self._bytes = count, compiled
        self._module, self._code, self._entry, self._call_check = module, code, entry, call_check
        self._given = dict(vars(module))

    def run(self) -> None:
        """Raises what the first test raised that failed."""
        names = vars(self._module)
        names.update(__name__="__main__", __file__="tests.py", candidate=self._entry)
        self._given["candidate"] = self._entry
        sys.modules["__main__"] = self._module
        self._prepare()
        self._compiled = self._count.compile(self._code, self._bytes)
        try:
            exec(self._compiled, names)
        except SystemExit as error:
            if hasattr(error, "from_program"):
                raise
            if error.code not in (None, 0, False):
                raise LeftWith(f"the tests ended with status {error.code!r}") from None
        own = {name: item for name, item in names.items() if item is not self._given.get(name)}
        check = own.get("check") if self._call_check else None
        if isinstance(check, types.FunctionType):
            _finish(check(self._entry))
        self._fixtures = arguments.Fixtures(own, self._entry)
        with contextlib.closing(self._fixtures):
            found = self._run_tests(own)
        if not (found or check or self._count.compared) and ">>>" in self._code:
            examples.run(self._module, self._count, vars(self._module))
        cases.raise_failed()  # of a suite that the code ran itself

    def _prepare(self) -> None:
        """Stands in for what the code names and would run it again, or keep to itself what failed."""
        code = self._code
        if "pytest" in code:
            little_pytest.install(self._count, fixtures.CLASSES)
        if "unittest" in code:
            cases.prepare(self._count)
        if "doctest" in code:
            import doctest

            def testmod(
                m: Any = None, name: Any = None, globs: Any = None, verbose: Any = None, report: bool = True,
                optionflags: int = 0, extraglobs: Any = None, *_: Any, **__: Any,
            ) -> Any:  # fmt: skip
                names = {**(vars(m or self._module) if globs is None else globs), **(extraglobs or {})}
                return examples.run(m or self._module, self._count, names, optionflags)

            doctest.testmod = testmod
        if "inspect" in code or "traceback" in code:
            import linecache

            linecache.cache["tests.py"] = (len(code), None, code.splitlines(True), "tests.py")

    def _run_tests(self, own: Mapping[str, Any]) -> bool:
        """Whether there was any."""
        unittest = sys.modules.get("unittest")
        module_marks = arguments.marks_of(own.get("pytestmark", ()))
        found = False
        _call_if_there(own.get("setup_module"), self._module)
        for name, item in own.items():
            if not _is_of(self._module, item):
                continue
            if isinstance(item, type) and unittest and issubclass(item, unittest.TestCase):
                found = cases.run(unittest, item) or found
            elif isinstance(item, type) and name.startswith("Test") and getattr(item, "__test__", True):
                found = self._run_class(item, module_marks) or found
            elif name.startswith("test") and getattr(item, "__test__", True) and not isinstance(item, type):
                found = True
                before_and_after = (own.get("setup_function"), own.get("teardown_function"))
                self._run_function(name, item, [*module_marks, *arguments.marks_of(item)], before_and_after)
        _call_if_there(own.get("teardown_module"), self._module)
        return found

    def _run_class(self, made: type, marks: Sequence[little_pytest.Mark], within: str = "") -> bool:
        """A class of pytest: a new object for each test. Those in it are classes of tests, too."""
        path = f"{within}{made.__name__}"
        all_names = dict.fromkeys(name for base in reversed(made.__mro__) for name in vars(base))
        names = [name for name in all_names if name.startswith("test") and callable(getattr(made, name))]
        if names and any(name in vars(base) for base in made.__mro__[:-1] for name in ("__init__", "__new__")):
            raise little_pytest.Unsupported(f"{made.__name__} has an __init__, and so pytest runs none of its tests")
        marks = [*marks, *(mark for base in made.__mro__ for mark in arguments.marks_of(vars(base)))]
        _call_if_there(getattr(made, "setup_class", None))
        for name in names:
            it = made()
            before_and_after = (getattr(it, "setup_method", None), getattr(it, "teardown_method", None))
            method = getattr(it, name)
            self._run_function(f"{path}.{name}", method, [*marks, *arguments.marks_of(method)], before_and_after)
        found = bool(names)
        for name in all_names:
            inner = getattr(made, name, None)
            if name.startswith("Test") and isinstance(inner, type) and getattr(inner, "__test__", True):
                found = self._run_class(inner, marks, f"{path}.") or found
        _call_if_there(getattr(made, "teardown_class", None))
        return found

    def _run_function(
        self, name: str, test: Any, marks: Sequence[little_pytest.Mark], before_and_after: Sequence[Any]
    ) -> None:
        if arguments.is_skipped(marks):
            return
        fixtures, passed_on = self._fixtures, arguments.indirect(marks)
        fixtures.look_at(test)
        needed = arguments.needed(test)
        for values, own_marks in arguments.parameters(marks):
            if arguments.is_skipped(own_marks):
                continue
            missing = [one for one in needed if one not in values and one not in fixtures]
            if missing and not values and _is_used(self._compiled, name):
                return  # a helper: other tests call it with what it needs
            direct = {one: value for one, value in values.items() if one not in passed_on}
            for params in fixtures.params(marks):
                params |= {one: value for one, value in values.items() if one in passed_on}
                self._run_once(name, test, marks, before_and_after, direct, params)

    def _run_once(
        self,
        name: str,
        test: Any,
        marks: Sequence[little_pytest.Mark],
        before_and_after: Sequence[Any],
        values: Mapping[str, Any],
        params: Mapping[str, Any],
    ) -> None:
        _call_if_there(before_and_after[0], test)
        try:
            with self._fixtures.open(name, marks, params) as fixtures:
                names = arguments.needed(test)
                given = {one: fixtures.value(one, name) for one in names if one not in values}
                result = test(**given, **values)
                _finish(result, fixtures.run)
        except little_pytest.Skipped:
            pass
        except Exception as error:
            if type(error).__name__ != "SkipTest" or hasattr(error, "from_program"):  # only tests skip tests
                raise outcomes.with_name(error, name) from None
        finally:
            _call_if_there(before_and_after[1], test)


def _is_used(code: types.CodeType, name: str) -> bool:
    """Whether the code reads that name."""
    import dis

    if any(one.argval == name and one.opname.startswith("LOAD_") for one in dis.get_instructions(code)):
        return True
    return any(_is_used(one, name) for one in code.co_consts if isinstance(one, types.CodeType))


def _is_of(module: types.ModuleType, item: Any) -> bool:
    """Whether it's made here, and not imported."""
    if isinstance(item, types.FunctionType | type):
        return item.__module__ == module.__name__ or item.__module__ == vars(module)["__name__"]
    return isinstance(item, functools.partial | types.MethodType)


def _finish(result: Any, run: Callable[[Any], Any] | None = None) -> None:
    """Of an async test, all that it does."""
    if isinstance(result, types.CoroutineType):
        import asyncio

        (run or asyncio.run)(result)
    elif type(result) in (types.GeneratorType, types.AsyncGeneratorType):
        raise little_pytest.Unsupported("test runners do not run a test that yields")


def _call_if_there(hook: Any, *given: object) -> None:
    if hook is not None:
        _finish(hook(*given[: len(arguments.needed(hook))]))
