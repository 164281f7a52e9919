"""What the tests get of a program that is made anew here: enums, exceptions, coroutines, types not to be called."""

import enum
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from sandbox_service.cage.objects import grades, methods, standing
from sandbox_service.cage.objects.proxy import Proxy
from sandbox_service.cage.wire import codec
from sandbox_service.cage.wire.errors import CannotCross

_ENUMS = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")
_places: dict[Any, int] = {}
_programs: dict[Any, Any] = {}
_known: set[Any] = set()


class _EnumType(enum.EnumMeta):
    """Of the program's enums: what the class has beside its members is asked there."""

    def __getattribute__(cls, name: str) -> Any:
        if cls in _programs and name[:2] != "__":
            _programs[cls].asked = True
        return super().__getattribute__(name)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or cls not in _known:
            raise AttributeError(name)
        found = _programs[cls].ask_for(grades.OF_METHOD, "getattr", cls, name)
        if type(found) is cls:
            raise CannotCross(f"a test uses {name!r}, an alias of an enum's member, which could stand for any other")
        return found

    def __getitem__(cls, name: str) -> Any:
        if name not in cls.__members__ and isinstance(name, str):
            getattr(cls, name, None)  # refused, if it is another name
        return super().__getitem__(name)


def know(made: Any) -> None:
    """It's an enum that the tests know by its name: its methods are what's tested."""
    _known.add(made)


def make_enum(program: Any, at: int, name: str, base: str, mixed: str, own: list[str], members: list[Any]) -> Any:
    """An enum of the same members. What else its class has is asked of the program.

    `mixed`: the plain type that it derives from, too, or "". `own`: special methods that it defines itself.

    Raises ValueError or TypeError for members that make none.
    """
    kind: Any = getattr(enum, base) if base in _ENUMS else enum.Enum
    bases = (methods.PLAIN[mixed], kind) if mixed in methods.PLAIN and kind is enum.Enum else (kind,)
    if any(one.startswith("_") for one, _ in members):
        raise ValueError("a member with the name of one of ours")

    def ask(member: Any, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        known = made in _known and attribute not in standing.PREDICATES
        return program.ask_for(grades.OF_METHOD if known else grades.OF_ATTRIBUTE, "getattr", member, attribute)

    namespace = _EnumType.__prepare__(name, bases)
    for one in own:
        if one in _SPECIALS:
            namespace[one] = _special(program, one)
    if "_missing_" in own:
        namespace["_missing_"] = classmethod(lambda cls, value: program.ask("call", cls, value))
    for one, value in members:
        namespace[one] = codec.decode(value)
    made: Any = _EnumType(name, bases, namespace)
    made.__getattr__ = ask
    _places[made] = at
    _programs[made] = program
    return made


# Of a member: what gives text is compared by the tests, and two members are of the same class.
_SHOWN = ("__str__", "__repr__", "__format__")
_SPECIALS = (*_SHOWN, "__lt__", "__le__", "__gt__", "__ge__", "__call__")


def _special(program: Any, name: str) -> Any:
    def method(member: Any, /, *arguments: Any, **keywords: Any) -> Any:
        if name == "__call__":
            return program.ask("call", member, *arguments, **keywords)
        if name in _SHOWN:
            return str(program.ask("special", member, name, *arguments))
        if type(member) not in _known or type(arguments[0]) is not type(member):
            return NotImplemented
        return program.ask("special", member, name, *arguments)

    return method


def place_of_enum(kind: type) -> int | None:
    return _places.get(kind) if type(kind) is _EnumType else None


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
        raise CannotCross("a test calls a type that is an attribute of one of the program's objects")


def coroutine(program: Any, proxy: Any) -> Coroutine[Any, Any, Any]:
    async def run() -> Any:
        return program.ask("await", proxy)

    return run()


async def async_generator(program: Any, proxy: Any) -> AsyncGenerator[Any, Any]:
    given = None
    while True:
        try:
            item = program.ask("asend", proxy, given)
        except StopAsyncIteration:
            return
        try:
            given = yield item
        except GeneratorExit:
            program.ask("aclose", proxy)
            raise


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
    error = kind.__new__(kind, *arguments) if issubclass(kind, BaseExceptionGroup) else kind.__new__(kind)
    error.args = tuple(arguments)
    error.__dict__.update(_message=message, __program__=program)
    if at is not None:
        error.__dict__["place_in_program"] = at
    return error


def _attribute(error: Any, name: str) -> Any:
    at = error.__dict__.get("place_in_program")
    if at is None or name.startswith("_"):
        raise AttributeError(name)
    proxy = standing.make_proxy(Proxy, at, grades.ATTRIBUTE)
    return error.__dict__["__program__"].ask_for(grades.OF_ATTRIBUTE, "getattr", proxy, name)


def _text(error: Any) -> str:
    return str(error.__dict__.get("_message", ", ".join(map(str, error.args))))
