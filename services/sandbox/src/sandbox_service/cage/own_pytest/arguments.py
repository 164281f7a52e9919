"""What the tests of pytest take: fixtures, and the values of `parametrize`; and the marks that skip them."""

import contextlib
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sandbox_service.cage.own_pytest import fixtures, little_pytest


class Fixtures:
    """Those of the test code, and pytest's own. What has a wider scope than a test's is made once for the file."""

    def __init__(self, own: Mapping[str, Any], entry: object) -> None:
        found = {one.name: one for one in own.values() if isinstance(one, little_pytest.Fixture)}
        self._own = fixtures.OFFERED | found
        self._all = dict(self._own)
        self._kept: dict[str, Any] = {"candidate": entry}
        self._values: dict[str, Any] = {}
        self._params: Mapping[str, Any] = {}
        self._test: Any = None
        self._name = ""
        self._runner: Any = None
        self._for_file, self._for_test = contextlib.ExitStack(), contextlib.ExitStack()

    def __contains__(self, name: str) -> bool:
        return name in self._all or name in self._kept or name == "request"

    def look_at(self, test: Any) -> None:
        """The fixtures are those of the class that it's a method of, too."""
        self._all, self._test = dict(self._own), test
        for base in reversed(type(getattr(test, "__self__", None)).__mro__[:-1]):
            self._all.update((one.name, one) for one in vars(base).values() if isinstance(one, little_pytest.Fixture))

    def params(self, marks: Sequence[little_pytest.Mark]) -> Iterator[dict[str, Any]]:
        """Every combination of the params of those that the test needs."""
        used: dict[str, None] = {}
        waiting = [*needed(self._test), *_used(marks), *(one.name for one in self._all.values() if one.autouse)]
        while waiting:
            name = waiting.pop(0)
            if name not in used and name in self._all:
                used[name] = None
                waiting += needed(self._bound(self._all[name]))
        with_params = [name for name in used if self._all[name].params is not None]
        for values in itertools.product(*(self._all[name].params for name in with_params)):
            yield dict(zip(with_params, values, strict=True))

    @contextlib.contextmanager
    def open(self, name: str, marks: Sequence[little_pytest.Mark], params: Mapping[str, Any]) -> Iterator["Fixtures"]:
        """For one test. `params`: by the fixtures' names."""
        self._values, self._name, self._params = {}, name, params
        with contextlib.ExitStack() as self._for_test:
            for one in [one.name for one in self._all.values() if one.autouse]:
                self.value(one, "a test")
            for one in _used(marks):
                self.value(one, "a test")
            yield self

    def value(self, name: str, asks: str) -> Any:
        values = self._kept | self._values
        if name in values:
            return values[name]
        if name == "request":
            return fixtures.Request(self, self._test, self._name)
        if name not in self._all:
            raise little_pytest.Unsupported(f"{asks} takes {name!r}, which is no fixture of the test code")
        fixture = self._all[name]
        function = self._bound(fixture)
        param = self._params.get(name, fixtures.NOTHING)
        request = fixtures.Request(self, self._test, self._name, name, param)
        made = function(**{one: request if one == "request" else self.value(one, name) for one in needed(function)})
        keeps = fixture.cached and param is fixtures.NOTHING
        end = self._for_file if keeps else self._for_test
        if type(made) is types.GeneratorType:  # and none of the program's
            steps, made = made, next(made)
            end.callback(next, steps, None)
        elif isinstance(made, types.AsyncGeneratorType):
            later, made = made, self.run(anext(made))
            end.callback(lambda: self.run(anext(later, None)))
        elif isinstance(made, types.CoroutineType):
            made = self.run(made)
        (self._kept if keeps else self._values)[name] = made
        return made

    def _bound(self, fixture: little_pytest.Fixture) -> Any:
        it = getattr(self._test, "__self__", None)
        if it is not None and getattr(type(it), fixture.function.__name__, None) is fixture:
            return types.MethodType(fixture.function, it)
        return fixture.function

    def at_end(self, finish: Callable[[], Any]) -> None:
        """Of this test."""
        self._for_test.callback(finish)

    def run(self, awaitable: Any) -> Any:
        """In the one loop that the tests of a file and their fixtures have."""
        import asyncio

        if self._runner is None:
            self._runner = asyncio.Runner()
            self._for_file.callback(self._runner.close)

        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    def close(self) -> None:
        self._for_file.close()


def _used(marks: Sequence[little_pytest.Mark]) -> list[str]:
    return [name for mark in marks if mark.name == "usefixtures" for name in mark.args]


def needed(function: Any) -> list[str]:
    """The parameters of a test that it must be given."""
    if isinstance(function, functools.partial):
        given = [*needed(function.func)[len(function.args) :]]
        return [name for name in given if name not in function.keywords]
    first = int(isinstance(function, types.MethodType))
    function = getattr(function, "__func__", function)
    # unittest.mock.patch hands its mocks over itself, before all others
    first += sum(not one.attribute_name for one in getattr(function, "patchings", ()) if _is_default(one.new))
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    names = code.co_varnames[first : code.co_argcount]
    optional = len(function.__defaults__ or ())
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    required = names[: len(names) - optional] if optional else names
    return [*required, *(name for name in keywords if name not in (function.__kwdefaults__ or {}))]


def _is_default(new: object) -> bool:
    return new is sys.modules["unittest.mock"].DEFAULT  # it is there: it made the patch


def marks_of(it: Any) -> list[little_pytest.Mark]:
    """Of a test, of the names of a class, or of a list of them."""
    if isinstance(it, Mapping | types.MappingProxyType):
        it = it.get("pytestmark", ())
    elif not isinstance(it, list | tuple | little_pytest.Mark):
        it = getattr(it, "pytestmark", ())
    return [it] if isinstance(it, little_pytest.Mark) else [one for one in it if isinstance(one, little_pytest.Mark)]


def is_skipped(marks: Sequence[little_pytest.Mark]) -> bool:
    """One that is expected to fail decides nothing either way."""
    return any(
        mark.name == "skip"
        or (mark.name in ("skipif", "xfail") and all(bool(_value(condition)) for condition in _conditions(mark)))
        for mark in marks
    )


def _conditions(mark: little_pytest.Mark) -> Sequence[Any]:
    return mark.args or ((mark.kwargs["condition"],) if "condition" in mark.kwargs else ())


def _value(condition: object) -> object:
    if isinstance(condition, str):
        raise little_pytest.Unsupported("a condition of pytest's marks cannot be a string here")
    return condition


def parameters(marks: Sequence[little_pytest.Mark]) -> Iterator[tuple[dict[str, Any], list[little_pytest.Mark]]]:
    """Every combination of what the marks parametrize hold; one without any, where there's no such mark."""
    combinations: list[tuple[dict[str, Any], list[little_pytest.Mark]]] = [({}, [])]
    for mark in marks:
        if mark.name == "parametrize":
            combinations = [
                (values | more, [*own, *more_own]) for values, own in combinations for more, more_own in _rows(mark)
            ]
    yield from combinations


def _rows(mark: little_pytest.Mark) -> Iterator[tuple[dict[str, Any], list[little_pytest.Mark]]]:
    bound = dict(zip(("argnames", "argvalues"), mark.args, strict=False)) | mark.kwargs
    names = _names(bound["argnames"])
    alone = isinstance(bound["argnames"], str) and "," not in bound["argnames"]
    for row in bound["argvalues"]:
        own: Sequence[little_pytest.Mark] = ()
        if isinstance(row, little_pytest.Param):
            values, own = row.values, row.marks
        else:
            values = (row,) if alone else tuple(row)
        if len(values) != len(names):
            raise little_pytest.Unsupported(f"parametrize names {', '.join(names)}, and a row has {len(values)} values")
        yield dict(zip(names, values, strict=True)), list(own)


def _names(names: Any) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)


def indirect(marks: Sequence[little_pytest.Mark]) -> set[str]:
    """The parameters whose values are for the fixtures of those names."""
    found: set[str] = set()
    for mark in marks:
        if mark.name == "parametrize" and (which := mark.kwargs.get("indirect")):
            named = dict(zip(("argnames",), mark.args, strict=False)) | mark.kwargs
            found.update(_names(named["argnames"]) if which is True else which)
    return found
