"""What the tests of pytest take: fixtures, and the values of `parametrize`; and the marks that skip them."""

import contextlib
import functools
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import little_pytest


class Fixtures:
    """The fixtures of the test code. Those of a wider scope than a test's are made once for the file."""

    def __init__(self, own: Mapping[str, Any], entry: object) -> None:
        self._own = {one.name: one for one in own.values() if isinstance(one, little_pytest.Fixture)}
        self._all = dict(self._own)
        self._kept: dict[str, Any] = {"candidate": entry}
        self._values: dict[str, Any] = {}
        self._it: object = None
        self._for_file, self._for_test = contextlib.ExitStack(), contextlib.ExitStack()

    def __contains__(self, name: str) -> bool:
        return name in self._all or name in self._kept

    @contextlib.contextmanager
    def open(self, it: object, marks: Sequence[little_pytest.Mark]) -> Iterator["Fixtures"]:
        """For one test. `it`: the object that it is a method of."""
        self._values, self._it, self._all = {}, it, dict(self._own)
        for base in reversed(type(it).__mro__[:-1]):
            self._all.update((one.name, one) for one in vars(base).values() if isinstance(one, little_pytest.Fixture))
        with contextlib.ExitStack() as self._for_test:
            for name in [one.name for one in self._all.values() if one.autouse]:
                self.value(name, "a test")
            for name in (name for mark in marks if mark.name == "usefixtures" for name in mark.args):
                self.value(name, "a test")
            yield self

    def value(self, name: str, asks: str) -> Any:
        values = self._kept | self._values
        if name in values:
            return values[name]
        if name not in self._all:
            raise little_pytest.Unsupported(f"{asks} takes {name!r}, which is no fixture of the test code")
        fixture = self._all[name]
        function = fixture.function
        if self._it is not None and getattr(type(self._it), function.__name__, None) is fixture:
            function = types.MethodType(function, self._it)
        made = function(**{one: self.value(one, name) for one in needed(function)})
        if isinstance(made, types.GeneratorType):
            steps, made = made, next(made)
            (self._for_file if fixture.cached else self._for_test).callback(next, steps, None)
        elif isinstance(made, types.CoroutineType):
            raise little_pytest.Unsupported(f"{name} is an async fixture, which is not offered here")
        (self._kept if fixture.cached else self._values)[name] = made
        return made

    def close(self) -> None:
        self._for_file.close()


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
        raise little_pytest.Unsupported("conditions of pytest's marks that are texts are not offered here")
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
    if mark.kwargs.get("indirect"):
        raise little_pytest.Unsupported("parametrize with indirect=True needs fixtures, which are not offered here")
    bound = dict(zip(("argnames", "argvalues"), mark.args, strict=False)) | mark.kwargs
    names = bound["argnames"]
    alone = isinstance(names, str) and "," not in names
    names = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
    for row in bound["argvalues"]:
        own: Sequence[little_pytest.Mark] = ()
        if isinstance(row, little_pytest.Param):
            values, own = row.values, row.marks
        else:
            values = (row,) if alone else tuple(row)
        if len(values) != len(names):
            raise little_pytest.Unsupported(f"parametrize names {', '.join(names)}, and a row has {len(values)} values")
        yield dict(zip(names, values, strict=True)), list(own)
