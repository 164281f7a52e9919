"""What the tests get of a program that is made anew here: enums, exceptions, coroutines, types not to be called."""

import enum
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import codec
import standing

_ENUMS = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")
_places: dict[Any, int] = {}
_known: set[Any] = set()


def know(made: Any) -> None:
    """It's an enum that the tests know by its name: its methods are what's tested."""
    _known.add(made)


def make_enum(program: Any, at: int, name: str, base: str, members: list[Any]) -> Any:
    """An enum of the same members. What else its class has is asked of the program.

    Raises ValueError or TypeError for members that make none.
    """
    kind: Any = getattr(enum, base) if base in _ENUMS else enum.Enum
    if any(one.startswith("_") for one, _ in members):
        raise ValueError("a member with the name of one of ours")
    made: Any = kind(name, [(one, codec.decode(value)) for one, value in members])

    def ask(member: Any, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        known = made in _known and attribute not in standing.PREDICATES
        return program.ask_for(standing.OF_METHOD if known else standing.OF_ATTRIBUTE, "getattr", member, attribute)

    made.__getattr__ = ask
    _places[made] = at
    return made


def place_of_enum(kind: type) -> int | None:
    return _places.get(kind) if type(kind) is enum.EnumMeta else None


class NotCalled:
    """A type of Python's own that is an attribute of what the program made: it is that type, and isn't called."""

    def __init__(self, kind: type) -> None:
        self.__kind = kind

    def __eq__(self, other: object) -> bool:
        return self.__kind == (other.__kind if isinstance(other, NotCalled) else other)

    def __hash__(self) -> int:
        return hash(self.__kind)

    def __repr__(self) -> str:
        return repr(self.__kind)

    def __call__(self, *_: object, **__: object) -> Any:
        raise standing.CannotCross("a test calls a type that is an attribute of an object that the program made")


def coroutine(program: Any, proxy: Any) -> Coroutine[Any, Any, Any]:
    async def run() -> Any:
        return program.ask("await", proxy)

    return run()


async def async_generator(program: Any, proxy: Any) -> AsyncIterator[Any]:
    while True:
        try:
            item = program.ask("anext", proxy)
        except StopAsyncIteration:
            return
        yield item


def make_builtin_error(kind: Any, arguments: Any, message: str) -> Any:
    """One that can't be made of its arguments here is one of a class of its name."""
    try:
        return kind(*arguments)
    except Exception:  # noqa: BLE001 (of Python's own exceptions, some want other arguments than they keep)
        return type(kind.__name__, (Exception,), {"__str__": lambda self: message})()


def make_error(program: Any, kind: Any, arguments: Any, message: str, at: int | None) -> Any:
    """Of a class of the program: what else it holds is asked, as of what the program handed out."""
    if "__getattr__" not in vars(kind):
        kind.__getattr__ = _attribute
        kind.__str__ = _text
    error = kind.__new__(kind)
    error.args = tuple(arguments)
    error.__dict__.update(_message=message, __program__=program)
    if at is not None:
        error.__dict__["place_in_program"] = at
    return error


def _attribute(error: Any, name: str) -> Any:
    at = error.__dict__.get("place_in_program")
    if at is None or name.startswith("_"):
        raise AttributeError(name)
    proxy = standing.make_proxy(standing.Proxy, at, standing.ATTRIBUTE)
    return error.__dict__["__program__"].ask_for(standing.OF_ATTRIBUTE, "getattr", proxy, name)


def _text(error: Any) -> str:
    return str(error.__dict__.get("_message", ", ".join(map(str, error.args))))
