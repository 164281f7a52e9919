"""Plain Python values <-> JSON: the only form in which a value enters or leaves the cage.

JSON's own null, true, false, numbers, strings and lists stand for themselves; everything else is a one-key object
whose key is the tag:

    i  an integer beyond 2**53, in hex      t  tuple        s  set           c  complex: real, imag
    b  bytes, in hex                        d  dict: pairs  f  frozenset     o  opaque: type's name, repr
    l  a value of the library, by its parts: library.py
    r, n, m  what the two sides of a check test share: link.py

Nothing else is ever rebuilt, and never by code of the sender. A subclass crosses as its base (IntEnum as int). An
object that has no form is opaque: it equals nothing.

Used on both sides, by the cage and by the service (domain/forms.py reads there what came).
"""

import json
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 100
ROOM = 4
"""Levels that the parts of a value of the library may take, as the pairs of an OrderedDict do: whole, or not at all."""
_SAFE_INT = 1 << 53
_SCALARS = {str, int, float, bool, type(None)}

Hook = Callable[[Any, int], object]
"""Gives the form of a value at a depth, or None."""


class Opaque:
    """A value that can't cross: known by its type and its repr, equal to nothing."""

    __slots__ = ("text", "type_name")

    def __init__(self, type_name: str, text: str) -> None:
        self.type_name = type_name
        self.text = text

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self.text


class Malformed(ValueError):
    """The text isn't what `dumps` writes."""


def dumps(value: object) -> str:
    """Never raises for a value: what can't be told apart from an attack (cycles, broken repr) becomes opaque."""
    return json.dumps(encode(value))


def parse(text: str | bytes) -> object:
    """JSON, with a NaN of its own for each: json gives one object for all, by which lists of them would be equal.
    Raises ValueError."""
    return json.loads(text, parse_constant=float)


def loads(text: str) -> object:
    """Raises Malformed, whatever the text."""
    try:
        return decode(parse(text))
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError, MemoryError) as error:
        raise Malformed(f"{type(error).__name__}: {str(error)[:200]}") from None


def encode(value: Any, rare: Hook | None = None, held: Hook | None = None, depth: int = 0) -> object:
    """`rare` is asked for the form of what isn't plain, `held` for that of a list or dict that the two sides share."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -_SAFE_INT < value < _SAFE_INT else {"i": hex(value)}
    if depth >= MAX_DEPTH:
        return opaque(value)
    below = depth + 1
    if held is not None and (kind is list or kind is dict):
        form = held(value, depth)
        if form is not None:
            return form
    if kind is list:
        return value[:] if stand_for_themselves(value) else [encode(item, rare, held, below) for item in value]
    if kind is tuple:
        return {"t": [encode(item, rare, held, below) for item in value]}
    if kind is dict:
        return {"d": [[encode(key, rare, held, below), encode(item, rare, held, below)] for key, item in value.items()]}
    if kind is bytes:
        return {"b": value.hex()}
    if kind is complex:
        return {"c": [value.real, value.imag]}
    form = rare(value, depth) if rare else None
    return _encode_base(value, rare, held, depth) if form is None else form


def stand_for_themselves(items: list[Any]) -> bool:
    """Whether JSON holds all of them: a list may have millions."""
    kinds = set(map(type, items))
    if not kinds <= _SCALARS:
        return False
    whole = items if kinds == {int} else [item for item in items if type(item) is int]
    return not whole or -_SAFE_INT < min(whole) <= max(whole) < _SAFE_INT


def _encode_base(value: Any, rare: Hook | None, held: Hook | None, depth: int) -> object:
    """A set, or an instance of a subclass as its base. Not isinstance: an object may claim to be of another class."""
    kind, below = type(value), depth + 1
    if issubclass(kind, set):
        return {"s": [encode(item, rare, held, below) for item in set.__iter__(value)]}
    if issubclass(kind, frozenset):
        return {"f": [encode(item, rare, held, below) for item in frozenset.__iter__(value)]}
    if issubclass(kind, int):
        return encode(int.__add__(value, 0))
    if issubclass(kind, str):
        return str.__str__(value)[:]
    if issubclass(kind, float):
        return float.__add__(value, 0.0)
    if issubclass(kind, list):
        return [encode(item, rare, held, below) for item in list.__iter__(value)]
    if issubclass(kind, tuple):
        return {"t": [encode(item, rare, held, below) for item in tuple.__iter__(value)]}
    if issubclass(kind, dict):
        items = dict.items(value)
        return {"d": [[encode(key, rare, held, below), encode(item, rare, held, below)] for key, item in items]}
    if issubclass(kind, bytes | bytearray):
        return {"b": bytes(value).hex()}
    if issubclass(kind, complex):
        return {"c": [complex.__add__(value, 0).real, complex.__add__(value, 0).imag]}
    return opaque(value)


def opaque(value: object) -> dict[str, list[str]]:
    try:
        text = str.__str__(repr(value)[:1024])
    except BaseException as error:  # noqa: BLE001 (the repr is the program's)
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return {"o": [type(value).__name__, text]}


def decode(data: Any, rebuild: Callable[[str, Any, int], object] | None = None, depth: int = 0) -> Any:
    """`rebuild` makes a value of a tag that isn't plain and its body. Raises Malformed, or what hostile parts raise."""
    if isinstance(data, list):
        if depth > MAX_DEPTH:
            raise Malformed("nested too deeply")
        if set(map(type, data)) <= _SCALARS:
            return data[:]
        return [decode(item, rebuild, depth + 1) for item in data]
    if not isinstance(data, dict):
        return data
    if depth > MAX_DEPTH + 1:
        raise Malformed("nested too deeply")
    below = depth + 1
    ((tag, body),) = data.items()
    if tag == "t":
        return tuple([decode(item, rebuild, below) for item in _list(body)])
    if tag == "d":
        return dict_of([[decode(key, rebuild, below), decode(item, rebuild, below)] for key, item in _list(body)])
    if tag == "i":
        return int(body, 16)
    if tag == "s":
        return set_of([decode(item, rebuild, below) for item in _list(body)])
    if tag == "f":
        return frozenset(set_of([decode(item, rebuild, below) for item in _list(body)]))
    if tag == "b":
        return bytes.fromhex(body)
    if tag == "c":
        real, imag = body
        return complex(real, imag)
    if tag == "o":
        type_name, text = body
        if not (isinstance(type_name, str) and isinstance(text, str)):
            raise Malformed("an opaque value is two strings")
        return Opaque(type_name[:256], text[:1024])
    if rebuild:
        return rebuild(tag, body, depth)
    raise Malformed(f"unknown tag {tag[:16]!r}")


def _list(body: Any) -> list[Any]:
    if not isinstance(body, list):
        raise Malformed("a container holds a list")
    return body


# Programs make lists and dicts that can be hashed (a known recipe), and put them into sets.


def set_of(items: list[Any]) -> set[Any]:
    try:
        return set(items)
    except TypeError:
        return {_hashable(item) for item in items}


def dict_of(pairs: list[Any]) -> dict[Any, Any]:
    try:
        return {key: item for key, item in pairs}  # noqa: C416 (a pair is any two items; dict() takes more)
    except TypeError:
        return {_hashable(key): item for key, item in pairs}


def _hashable(item: Any) -> Any:
    kind = type(item)
    if kind is list or kind is dict or kind is set:
        return {list: _List, dict: _Dict, set: _Set}[kind](item)
    return tuple([_hashable(inner) for inner in item]) if type(item) is tuple else item


class _List(list):  # type: ignore[type-arg]
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple([_hashable(item) for item in self]))


class _Dict(dict):  # type: ignore[type-arg]
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset([(_hashable(key), _hashable(item)) for key, item in self.items()]))


class _Set(set):  # type: ignore[type-arg]
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self))
