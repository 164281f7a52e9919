"""Plain Python values <-> JSON text: the only form in which a value enters or leaves the cage.

JSON's own null, true, false, numbers, strings and lists stand for themselves; everything else is a one-key object
whose key is the tag. Nothing but None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset and dict is
ever rebuilt, so no code of the sender runs at the receiver. A subclass crosses as its base (Counter as dict, IntEnum
as int), a number of numpy as Python's, an array of numpy as its type and the list of its items. Any other object
crosses as its type's name and its repr, which equals nothing, or as what the two sides agree on: see `other`.

Used on both sides: the cage imports it by path, the service as a module.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 100
_SAFE_INT = 1 << 53


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


def loads(text: str) -> object:
    """Raises Malformed, whatever the text."""
    try:
        return decode(json.loads(text))
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError, MemoryError) as error:
        raise Malformed(f"{type(error).__name__}: {str(error)[:200]}") from None


def encode(value: Any, other: Callable[[object], object] | None = None, depth: int = 0) -> object:
    """`other` gives the form of a value that isn't plain, for a `rebuild` to take; None leaves it opaque."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -_SAFE_INT < value < _SAFE_INT else {"i": hex(value)}
    if depth >= MAX_DEPTH:
        return _opaque(value)
    below = depth + 1
    if kind is list:
        return [encode(item, other, below) for item in value]
    if kind is tuple:
        return {"t": [encode(item, other, below) for item in value]}
    if kind is dict:
        return {"d": [[encode(key, other, below), encode(item, other, below)] for key, item in value.items()]}
    return _encode_rare(value, other, depth)


def _encode_rare(value: Any, other: Callable[[object], object] | None, depth: int) -> object:
    kind, below = type(value), depth + 1  # and not isinstance: an object may claim to be of another class
    if issubclass(kind, bytes | bytearray):
        return {"b": bytes(value).hex()}
    if issubclass(kind, set):
        return {"s": [encode(item, other, below) for item in set.__iter__(value)]}
    if issubclass(kind, frozenset):
        return {"f": [encode(item, other, below) for item in frozenset.__iter__(value)]}
    if issubclass(kind, complex):
        return {"c": [value.real, value.imag]}
    if issubclass(kind, int):
        return encode(int.__add__(value, 0))
    if issubclass(kind, float):
        return float.__add__(value, 0.0)
    if issubclass(kind, str):
        return str.__str__(value)[:]
    if issubclass(kind, list):
        return [encode(item, other, below) for item in list.__iter__(value)]
    if issubclass(kind, tuple):
        return {"t": [encode(item, other, below) for item in tuple.__iter__(value)]}
    if issubclass(kind, dict):
        return {"d": [[encode(key, other, below), encode(item, other, below)] for key, item in dict.items(value)]}
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind.__module__ == "numpy":
        if issubclass(kind, numpy.generic):
            return encode(value.item(), other, below)
        if issubclass(kind, numpy.ndarray):
            return {"a": [str(value.dtype), encode(value.tolist(), other, below)]}
    form = other(value) if other else None
    return _opaque(value) if form is None else {"r": form}


def _opaque(value: object) -> dict[str, list[str]]:
    try:
        text = repr(value)[:1024]
    except BaseException as error:  # noqa: BLE001 (the repr is the program's)
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return {"o": [type(value).__name__, str.__str__(text)]}


def decode(data: object, rebuild: Callable[[object], object] | None = None, depth: int = 0) -> Any:
    """`rebuild` makes a value of what `other` made of one. Without it, an array of numpy is a list."""
    if depth > MAX_DEPTH + 1:
        raise Malformed("nested too deeply")
    below = depth + 1
    if isinstance(data, list):
        return [decode(item, rebuild, below) for item in data]
    if not isinstance(data, dict):
        return data
    ((tag, body),) = data.items()
    if tag == "t":
        return tuple(decode(item, rebuild, below) for item in _list(body))
    if tag == "d":
        pairs: Any = _list(body)
        return {decode(key, rebuild, below): decode(item, rebuild, below) for key, item in pairs}
    if tag == "i":
        return int(body, 16)
    if tag == "s":
        return {decode(item, rebuild, below) for item in _list(body)}
    if tag == "f":
        return frozenset(decode(item, rebuild, below) for item in _list(body))
    if tag == "b":
        return bytes.fromhex(body)
    if tag == "c":
        real, imag = body
        return complex(real, imag)
    if tag == "a":
        dtype, items = body
        return _array(dtype, decode(items, rebuild, below)) if rebuild else decode(items, None, below)
    if tag == "r" and rebuild:
        return rebuild(body)
    if tag == "o":
        type_name, text = body
        if not (isinstance(type_name, str) and isinstance(text, str)):
            raise Malformed("an opaque value is two strings")
        return Opaque(type_name[:256], text[:1024])
    raise Malformed(f"unknown tag {tag[:16]!r}")


def _array(dtype: object, items: object) -> object:
    """An array where numpy is at hand, and else what `tolist` gives."""
    numpy = sys.modules.get("numpy")
    return items if numpy is None else numpy.array(items, dtype=numpy.dtype(str(dtype)))


def _list(body: object) -> list[object]:
    if not isinstance(body, list):
        raise Malformed("a container holds a list")
    return body
