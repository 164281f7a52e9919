"""What an exception holds beside its arguments, as far as it's plain data: a file's name, notes, attributes set on it.

Objects in it stay behind, and so do names with an underscore and what the two sides have put there themselves.
"""

from typing import Any

from sandbox_service.cage.wire import codec

_HELD: dict[type, tuple[str, ...]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
    SyntaxError: ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset"),
}
"""What these keep in places of their own, which no constructor takes or not from `args`."""
_OURS = ("from_program", "place_in_program")
_NUMBERS = (bool, int, float, complex, type(None))
_CONTAINERS = (tuple, list, set, frozenset)
_MOST = 10_000
_DEEPEST = 10
_DICT: Any = BaseException.__dict__["__dict__"]  # whatever a class says that it is


def is_plain(value: Any) -> bool:
    """Whether it's short data of Python's own types, which crosses as a copy."""
    return _size(value, 0) < _MOST


def _size(value: Any, depth: int) -> int:
    """About as many characters as it takes; _MOST for what is no data."""
    kind = type(value)
    if kind in _NUMBERS:
        return 8 + (value.bit_length() // 4 if kind is int else 0)
    if kind is str or kind is bytes:
        return len(value)
    if depth > _DEEPEST or (kind is not dict and kind not in _CONTAINERS) or len(value) > _MOST:
        return _MOST
    items = (*value.keys(), *value.values()) if kind is dict else value
    return sum(_size(item, depth + 1) for item in items)


def of(error: BaseException) -> dict[str, Any]:
    """Forms by name."""
    places = [(kind, name) for kind, names in _HELD.items() if issubclass(type(error), kind) for name in names]
    found = {name: item for kind, name in places if (item := getattr(kind, name).__get__(error)) is not None}
    for name, item in _DICT.__get__(error).items():
        if name == "__notes__" and type(item) is list:
            found[name] = [note for note in item if type(note) is str]
        elif type(name) is str and not name.startswith("_") and name not in _OURS:
            found[name] = item
    return {name: codec.encode(item) for name, item in found.items() if is_plain(item)}


def give(error: BaseException, forms: dict[str, Any]) -> None:
    """What `of` said, to one made here. A method, or what else its class calls, stays as it is.

    Raises ValueError, or what wrong forms raise.
    """
    places = {name: kind for kind, names in _HELD.items() if isinstance(error, kind) for name in names}
    for name, form in forms.items():
        item = codec.decode(form)
        if name in places:
            getattr(places[name], name).__set__(error, item)
        elif name == "__notes__":
            _DICT.__get__(error)[name] = [str(note) for note in item]
        elif name.startswith("_") or name in _OURS:
            raise ValueError("no name of an attribute")
        elif not callable(getattr(type(error), name, None)):
            _DICT.__get__(error)[name] = item
