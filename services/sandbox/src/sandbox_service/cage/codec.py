"""Plain Python values <-> JSON text: the only form in which a value enters or leaves the cage.

JSON's own null, true, false, numbers, strings and lists stand for themselves; everything else is a one-key object
whose key is the tag. Nothing but None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset and dict is
ever rebuilt, so no code of the sender runs at the receiver. A subclass crosses as its base (Counter as dict, IntEnum
as int); any other object crosses as its type's name and its repr, which equals nothing.

Used on both sides: the cage imports it by path, the service as a module.
"""

import json

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


def encode(value: object, depth: int = 0) -> object:
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -_SAFE_INT < value < _SAFE_INT else {"i": hex(value)}  # type: ignore[operator,arg-type]
    if depth >= MAX_DEPTH:
        return _opaque(value)
    below = depth + 1
    if kind is list:
        return [encode(item, below) for item in value]  # type: ignore[attr-defined]
    if kind is tuple:
        return {"t": [encode(item, below) for item in value]}  # type: ignore[attr-defined]
    if kind is dict:
        return {"d": [[encode(key, below), encode(item, below)] for key, item in value.items()]}  # type: ignore[attr-defined]
    return _encode_rare(value, depth)


def _encode_rare(value: object, depth: int) -> object:
    below = depth + 1
    if isinstance(value, bytes | bytearray):
        return {"b": bytes(value).hex()}
    if isinstance(value, set):
        return {"s": [encode(item, below) for item in set.__iter__(value)]}
    if isinstance(value, frozenset):
        return {"f": [encode(item, below) for item in frozenset.__iter__(value)]}
    if isinstance(value, complex):
        return {"c": [value.real, value.imag]}
    if isinstance(value, int):
        return encode(int.__add__(value, 0), depth)
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, str):
        return str.__str__(value)[:]
    if isinstance(value, list):
        return [encode(item, below) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return {"t": [encode(item, below) for item in tuple.__iter__(value)]}
    if isinstance(value, dict):
        return {"d": [[encode(key, below), encode(item, below)] for key, item in dict.items(value)]}
    return _opaque(value)


def _opaque(value: object) -> dict[str, list[str]]:
    try:
        text = repr(value)[:1024]
    except BaseException as error:  # noqa: BLE001 (the repr is the program's)
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return {"o": [type(value).__name__, str.__str__(text)]}


def decode(data: object, depth: int = 0) -> object:
    if depth > MAX_DEPTH + 1:
        raise Malformed("nested too deeply")
    below = depth + 1
    if isinstance(data, list):
        return [decode(item, below) for item in data]
    if not isinstance(data, dict):
        return data
    ((tag, body),) = data.items()
    if tag == "t":
        return tuple(decode(item, below) for item in _list(body))
    if tag == "d":
        return {decode(key, below): decode(item, below) for key, item in _list(body)}  # type: ignore[misc]
    if tag == "i":
        return int(body, 16)
    if tag == "s":
        return {decode(item, below) for item in _list(body)}
    if tag == "f":
        return frozenset(decode(item, below) for item in _list(body))
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
    raise Malformed(f"unknown tag {tag[:16]!r}")


def _list(body: object) -> list[object]:
    if not isinstance(body, list):
        raise Malformed("a container holds a list")
    return body
