"""What stands in the program's process for objects that stay with the tests: what's done with it is asked there.

A function is a function here, with the parameters that it has there; an exception class is an exception class.
"""

import itertools
import types
from collections.abc import Callable
from typing import Any

from sandbox_service.cage.objects import details, lent

_MISSING: Any = type("default", (), {"__repr__": lambda self: "<default>"})()


class Guests:
    """By the numbers that the tests gave them. `owner` asks the tests."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._here: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # by id
        self._errors: dict[str, type[BaseException]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._here

    def __getitem__(self, number: int) -> Any:
        return self._here[number]

    def number(self, value: object) -> int | None:
        return self._numbers.get(id(value))

    def _keep(self, number: int, value: Any) -> Any:
        self._here[number] = value
        self._numbers[id(value)] = number
        return value

    def stand_in(
        self, number: int, what: str, name: str, specials: list[str], parameters: Any, kind: Any, words: Any
    ) -> Any:
        """See lent.describe. `kind`: what stands for the object's class, if that is one of the tests. `words`: of a
        function, see lent.words_of."""
        if what == "function":
            doc, annotations, sort, defaults = words
            made = _function(self._owner, number, name, parameters, sort)
            made.__doc__, made.__annotations__ = doc, dict(annotations)
            if defaults and made.__defaults__:
                made.__defaults__ = defaults
            return self._keep(number, made)
        if what == "coroutine":
            return self._keep(number, _awaited(self._owner, number))
        if what == "class":
            made = _GuestClass(name, (Guest,), {"__slots__": (), "__module__": "tests", **_methods(specials)})
            type.__setattr__(made, "_guest_class", (self._owner, number))
            return self._keep(number, made)
        base = kind or _class_of(name, tuple(specials))
        made = object.__new__(base)
        object.__setattr__(made, "_guest", (self._owner, number))
        return self._keep(number, made)

    def error_class(self, number: int, kinds: list[str]) -> Any:
        if number not in self._here:
            self._keep(number, lent.error_class(kinds, self._errors))
        return self._here[number]

    def error(self, raised: dict[str, Any], decode: Callable[[Any], Any]) -> BaseException:
        """What the tests raised, or hand over."""
        if "m" in raised:
            return self._here[raised["m"]]  # type: ignore[no-any-return]
        if "place" in raised:
            return self._owner.lent(raised["place"])  # type: ignore[no-any-return]
        if raised["kinds"][0] == "StopIteration":
            return StopIteration(*decode(raised.get("args", {"t": []})))
        kind = lent.error_class(raised["kinds"], self._errors)
        arguments = decode(raised["args"]) if "args" in raised else (raised["message"],)
        if "group" in raised:
            arguments = raised["group"][0], [self.error(one, decode) for one in raised["group"][1]]
        try:
            error = kind(*arguments)
        except Exception:  # noqa: BLE001 (one with parameters of its own)
            error = kind.__new__(kind, *arguments) if "group" in raised else kind.__new__(kind)
            error.args = arguments
        details.give(error, raised.get("held", {}))
        if "number" in raised:
            self._keep(raised["number"], error)
        return error  # type: ignore[no-any-return]


class _GuestClass(type):
    """A class of the tests: calling it makes an object there."""

    _guest_class: Any

    def __call__(cls, /, *arguments: object, **keywords: object) -> Any:
        owner, number = cls._guest_class
        return owner.ask("call", number, *arguments, **keywords)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        owner, number = cls._guest_class
        return owner.ask("getattr", number, name)


class Guest(metaclass=_GuestClass):
    """An object of the tests."""

    __slots__ = ("__weakref__", "_guest")
    _guest: Any

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        """The program's class of this name, where it has one: the records of a prompt are the tests' and the program's,
        and isinstance must know one by the other."""
        return self._guest[0].own_class(type(self).__name__) or type(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        owner, number = self._guest
        return owner.ask("getattr", number, name)

    def __setattr__(self, name: str, value: object) -> None:
        owner, number = self._guest
        owner.ask("setattr", number, name, value)

    def __delattr__(self, name: str) -> None:
        owner, number = self._guest
        owner.ask("delattr", number, name)


def _methods(specials: list[str]) -> dict[str, Any]:
    made = {name: _method(name) for name in specials}
    if "__eq__" in made and "__hash__" not in made:
        made["__hash__"] = None
    return made


def _method(name: str) -> Any:
    def method(self: Any, /, *arguments: object, **keywords: object) -> Any:
        owner, number = self._guest
        if name == "__call__":
            return owner.ask("call", number, *arguments, **keywords)
        return owner.ask("special", number, name, *arguments)

    method.__name__ = name
    return method


_classes: dict[Any, Any] = {}


def _class_of(name: str, specials: tuple[str, ...]) -> Any:
    made = _classes.get((name, specials))
    if made is None:
        namespace = {"__slots__": (), "__module__": "tests", **_methods(list(specials))}
        made = _classes[name, specials] = _GuestClass(name, (Guest,), namespace)
    return made


def _awaited(owner: Any, number: int) -> Any:
    async def run() -> Any:
        return owner.ask("await", number)

    return run()


def _function(owner: Any, number: int, name: str, parameters: Any, sort: str) -> Any:
    """A function that asks, with these parameters: programs look at how many a function takes. `sort`: "coroutine",
    "generator" or neither."""

    def ask(*arguments: object, **keywords: object) -> Any:
        return owner.ask("call", number, *arguments, **keywords)

    made: Any = ask
    if parameters is None or not _is_written(parameters):
        parameters = [], 0, "_rest", "_named", [], []
    made = _with_parameters(ask, _RETURNS.get(sort, ""), *parameters)
    made.__name__ = made.__qualname__ = name
    made.__module__ = "tests"
    return made


_RETURNS = {"coroutine": "await", "generator": "yield from"}


def _is_written(parameters: Any) -> bool:
    """Whether they are names as one writes them: those of a comprehension's function are not."""
    names = [*parameters[0], *parameters[4], *(name for name in parameters[2:4] if name)]
    return all(isinstance(name, str) and name.isidentifier() and not name.startswith("_ask") for name in names)


def _with_parameters(
    ask: Any,
    returns: str,
    names: list[str],
    defaults: int,
    rest: str | None,
    rest_by_name: str | None,
    more: list[str],
    has: list[str],
) -> types.FunctionType:
    required = names[: len(names) - defaults]
    head = [*required, *(f"{name}=_ask_none" for name in names[len(required) :])]
    head += [f"*{rest}"] if rest else ["*"] if more else []
    head += [f"{name}=_ask_none" if name in has else name for name in more]
    head += [f"**{rest_by_name}"] if rest_by_name else []
    pairs = "".join(f"({name!r}, {name}), " for name in names)
    by_name = "".join(f"{name!r}: {name}, " for name in more)
    body = (
        f"{'async ' * (returns == 'await')}def made({', '.join(head)}):\n"
        f"    _ask_first, _ask_named = _ask_split(({pairs}), {{{by_name}}})\n"
        f"    return ({returns} _ask(*_ask_first{f', *{rest}' if rest else ''},"
        f" **_ask_named{f', **{rest_by_name}' if rest_by_name else ''}))"
    )
    namespace: dict[str, Any] = {"_ask": ask, "_ask_none": _MISSING, "_ask_split": _split}
    exec(compile(body, "<a function of the tests>", "exec", dont_inherit=True), namespace)
    return namespace["made"]  # type: ignore[no-any-return]


def _split(pairs: Any, by_name: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What was given: by position, and by name what comes after one that was left out."""
    given = list(itertools.takewhile(lambda pair: pair[1] is not _MISSING, pairs))
    left = {**dict(pairs[len(given) :]), **by_name}
    return [value for _, value in given], {name: value for name, value in left.items() if value is not _MISSING}
