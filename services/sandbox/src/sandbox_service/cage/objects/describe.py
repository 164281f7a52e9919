"""What the program's functions and classes say of themselves, for methods.py and standing.py on the tests' side."""

import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from sandbox_service.cage.objects import link
from sandbox_service.cage.wire import channel, codec

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_BINDING = (types.FunctionType, type(functools.cache(len)))
_PYTHONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.GeneratorType)


def shape(function: Any) -> list[Any] | None:
    """The code's counts of parameters, flags, name, line, and the parameters' names. None: it has no code."""
    if isinstance(function, types.MethodType):
        function = function.__func__
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return [
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_name,
        code.co_firstlineno, list(code.co_varnames[:count]),
    ]  # fmt: skip


def facts(kind: type, encode: Callable[[Any], Any]) -> dict[str, Any]:
    """Of a class, what there is of these:

    python: the name of one of Python's own types, which it is. base: that of a plain type that it derives from.
    abstract: its abstract methods. library: the abstract classes of the library that it derives from, by module and
    name. checks: it says itself what its objects are. protocol: the names that make an object one of it.
    subscript: what `Stack[int]` is: by the "library" the class itself, or its "own" answer. slots: its objects hold no
    others. fields: those of a dataclass: name, type, has a default, default, flags. binds: in a class it's a method.
    descriptor: what it does with the attributes of other classes. takes: the names of what its objects are made of.
    """
    if _is_among(kind, _PYTHONS):
        return {"python": kind.__name__, "binds": _is_among(kind, _BINDING)}
    found: dict[str, Any] = {"binds": True} if _is_among(kind, _BINDING) else {}
    if descriptor := _descriptor(kind):
        found["descriptor"] = descriptor
    if takes := _taken(kind):
        found["takes"] = takes
    base = next((base.__name__ for base in kind.__mro__ if _is_among(base, link.PLAIN)), None)
    if base:
        found["base"] = base
    if type(kind) is not type:
        found |= _of_abstract(kind)
    if subscript := _subscript(kind):
        found["subscript"] = subscript
    if kind.__dictoffset__ == 0 and not base:
        found["slots"] = True
    if "__dataclass_fields__" in kind.__dict__ and "dataclasses" in sys.modules:
        found["fields"] = [encode(_field(field)) for field in sys.modules["dataclasses"].fields(kind)]
    return found


def _descriptor(kind: type) -> list[str]:
    own = [base for base in kind.__mro__ if base.__module__ != "builtins" and link.name_of(base) is None]
    return [name for name in channel.DESCRIPTORS if any(name in vars(base) for base in own)]


def _taken(kind: type) -> list[str]:
    code = getattr(getattr(kind, "__init__", None), "__code__", None)
    if not isinstance(code, types.CodeType):
        return []
    return list(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def _subscript(kind: type) -> str:
    owner = next((base for base in kind.__mro__ if "__class_getitem__" in base.__dict__), None)
    if owner is None:
        return ""
    return "library" if owner.__module__ != kind.__module__ and link.name_of(owner) is not None else "own"


def _is_among(kind: type, kinds: Sequence[type]) -> bool:
    """By identity: a metaclass may say that it equals all."""
    return any(kind is one for one in kinds)


def _of_abstract(kind: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if abstract := kind.__dict__.get("__abstractmethods__"):
        found["abstract"] = [str(name) for name in abstract]
    library = [link.name_of(base) for base in kind.__mro__ if type(base) is not type]
    if library := [name for name in library if name]:
        found["library"] = library
    if kind.__dict__.get("_is_protocol", False):
        found["protocol"] = [
            name
            for base in kind.__mro__
            if base.__dict__.get("_is_protocol", False) and base.__module__ != "typing"
            for name in (*vars(base), *vars(base).get("__annotations__", ()))
            if not name.startswith("_") or name in ("__call__", "__len__", "__iter__", "__getitem__", "__contains__")
        ]
    if getattr(type(kind), "__instancecheck__", None) is not getattr(type, "__instancecheck__", None):
        found["checks"] = True
    return found


def _field(field: Any) -> tuple[Any, ...]:
    given = type(field.default) in _PLAIN
    flags = [bool(one) for one in (field.init, field.repr, field.compare, field.kw_only is True)]
    return field.name, annotation(field.type), given, field.default if given else None, flags


def annotation(kind: Any) -> Any:
    """One of Python's own types as it is, anything else by its text."""
    if isinstance(kind, str) or (isinstance(kind, type) and kind.__module__ == "builtins"):
        return kind
    return getattr(kind, "__name__", None) or repr(kind)[:1000]


def annotations(it: Any) -> dict[str, Any] | None:
    found = getattr(it, "__annotations__", None)
    return None if found is None else {str(name): annotation(kind) for name, kind in found.items()}


def members(kind: Any) -> list[Any]:
    """Of an enum: the class of the library that it is of, the plain type that it is of, too, special methods of its
    own, and each member's name and value. No other names of a member: with these, one could stand for all."""
    base = next(base.__name__ for base in kind.__mro__ if base.__module__ == "enum")
    mixed = next((base.__name__ for base in kind.__mro__ if _is_among(base, link.PLAIN)), "")
    own = [name for base in kind.__mro__ if base.__module__ not in ("enum", "builtins") for name in vars(base)]
    named = [[name, codec.encode(one.value)] for name, one in vars(kind)["_member_map_"].items() if one.name == name]
    return [base, mixed, [name for name in own if name == "_missing_" or name in channel.SPECIALS], named]
