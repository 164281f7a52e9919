"""Functions and classes of the program as tests look at them: what they say of themselves, and methods to be called.

A function says of itself what a function of Python says, by data: its code has its parameters and its kind, and nothing
to run. The rules for methods are in standing.py.
"""

import sys
import types
from typing import Any

from sandbox_service.cage.objects import grades, link, standing
from sandbox_service.cage.wire.errors import CannotCross

# What an object of Python's own is to isinstance, by the name of its type.
PYTHONS = {
    "function": types.FunctionType,
    "method": types.MethodType,
    "builtin_function_or_method": types.BuiltinFunctionType,
    "generator": types.GeneratorType,
}
# What functions tell of themselves.
OF_FUNCTIONS = {
    "__name__", "__qualname__", "__doc__", "__wrapped__", "__module__", "__defaults__", "__kwdefaults__",
    "__annotations__", "__isabstractmethod__",
}  # fmt: skip


def code_of(program: Any, function: Any) -> types.CodeType:
    """With the flags and parameters of the function's own. Raises AttributeError where it has none."""
    shape = program.ask("shape", function)
    if shape is None:
        raise AttributeError("__code__")
    try:
        count, positional, by_name, flags, name, line, names = shape
        plain = _nothing.__code__
        return plain.replace(
            co_argcount=count, co_posonlyargcount=positional, co_kwonlyargcount=by_name, co_varnames=tuple(names),
            co_nlocals=len(names), co_flags=plain.co_flags | (flags & _FLAGS), co_name=name, co_qualname=name,
            co_firstlineno=line, co_filename="program.py",
        )  # fmt: skip
    except (TypeError, ValueError, OverflowError):
        raise AttributeError("__code__") from None


def _of_class(made: Any, name: str) -> Any:
    """What a class of the program says of itself, and one of the tests here."""
    own = type.__getattribute__(made, "__dict__").get(name)
    if standing.class_place(made) is None or made.__of_tests__:
        return own
    try:
        return made.__program__.ask_for(grades.OF_ATTRIBUTE, "getattr", made, name)
    except AttributeError:
        return None


def doc_of_class(made: Any) -> Any:
    return _of_class(made, "__doc__")


def annotations_of_class(made: Any) -> Any:
    is_here = made.__of_tests__ or standing.class_place(made) is None
    return type.__getattribute__(made, "__dict__").get("__annotations__", {}) if is_here else annotations_of(made)


def slots_of_class(made: Any) -> Any:
    if "slots" not in made.__facts__:
        raise AttributeError("__slots__")
    return _of_class(made, "__slots__") or ()


def bases_of_class(made: Any) -> tuple[Any, ...]:
    bases = type.__dict__["__bases__"].__get__(made)
    return tuple(object if _is_ours(base) else base for base in bases)


def mro_of_class(made: Any) -> tuple[Any, ...]:
    return tuple(base for base in type.__dict__["__mro__"].__get__(made) if not _is_ours(base))


def _is_ours(base: Any) -> bool:
    """Whether classes of the program derive from it here alone."""
    return isinstance(base, standing.AnyProxyClass) and base.__program__ is None


def annotations_of(it: Any) -> Any:
    """Of a function or class."""
    kind: Any = type(it) if isinstance(it, standing.AnyProxy) else it
    found = kind.__program__.ask("annotations", it)
    if found is None:
        raise AttributeError("__annotations__")
    return found


def signature_of(made: Any) -> Any:
    """Of a class: what its __init__ takes. Raises AttributeError where it says nothing."""
    inspect: Any = __import__("inspect")
    try:
        taken = inspect.signature(made.__program__.ask_for(grades.OF_ATTRIBUTE, "getattr", made, "__init__"))
    except (TypeError, ValueError):
        raise AttributeError("__signature__") from None
    _, *parameters = taken.parameters.values()
    return inspect.Signature(parameters)


def _nothing() -> None:
    pass


_FLAGS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # the rest, the rest by name, generator, coroutine, async generator


def _demand_made(it: Any, what: str) -> None:
    if not isinstance(it, standing.AnyProxy) or standing.rank_of(it) is not grades.MADE:
        raise CannotCross(f"a test calls {what} of one of the program's objects, and only that could answer")


def of_property(function: Any) -> Any:
    """What gets, sets or deletes, if there's any: of objects that the tests made."""
    if function is None:
        return None

    def act(it: Any, *arguments: object) -> Any:
        _demand_made(it, "a property's function")
        return function(it, *arguments)

    return act


def is_method(kind: Any, name: str) -> bool:
    """A class of the program defines a function of that name."""
    return any(isinstance(vars(base).get(name), Method) for base in type.__dict__["__mro__"].__get__(kind))


class Method:
    # A function of a class of the program, as its class has it.
    of_class: Any = None

    def __init__(self, name: str) -> None:
        self.__name__, self.__module__ = name, "solution"

    def __get__(self, it: Any, kind: Any = None) -> Any:
        if it is None:
            return self
        put = standing.put_in(it)
        return put[self.__name__] if self.__name__ in put else types.MethodType(self, it)

    def __call__(self, it: Any, /, *arguments: object, **keywords: object) -> Any:
        name, kind = self.__name__, self.of_class
        ask = kind.__program__.ask_for
        if standing.tells_by(it, name) and not (arguments or keywords):
            return ask(grades.OF_ATTRIBUTE, "method", it, name)
        _demand_made(it, f"the method {name!r}")
        if standing.slot_of(it, "_came_back") and name in standing.PREDICATES:
            raise CannotCross(f"a test reads {name} of one of the program's objects")
        if standing.class_place(kind) is None or type(it) is kind:
            return ask(grades.OF_MADE, "method", it, name, *arguments, **keywords)
        return ask(grades.OF_MADE, "function", kind, name, it, *arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        kind = self.of_class
        if kind is None or standing.class_place(kind) is None or name not in OF_FUNCTIONS | {"__code__"}:
            raise AttributeError(name)
        function = kind.__program__.ask_for(grades.OF_ATTRIBUTE, "getattr", kind, self.__name__)
        return getattr(function, name)

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        try:
            return self.__getattr__("__doc__")
        except AttributeError:
            return None

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return types.FunctionType

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"


def fields_of(made: Any) -> dict[str, Any]:
    """The fields of a dataclass. Raises AttributeError for any other class."""
    described = made.__facts__.get("fields")
    if described is None:
        raise AttributeError("__dataclass_fields__")
    dataclasses: Any = sys.modules.get("dataclasses") or __import__("dataclasses")
    fields = []
    for name, kind, has_default, default, flags in described:
        given = {"default": default} if has_default else {}
        field = dataclasses.field(**given, init=flags[0], repr=flags[1], compare=flags[2], kw_only=flags[3])
        fields.append((name, kind, field))
    return dataclasses.make_dataclass("fields", fields, init=False).__dataclass_fields__  # type: ignore[no-any-return]


_BASES: dict[Any, Any] = {}


def class_over(kind: Any, base: str) -> Any:
    """What isinstance sees of an object whose class derives from a plain type: a class of its name over that type."""
    if (kind, base) not in _BASES:
        _BASES[kind, base] = type(kind.__name__, (PLAIN[base],), {"__module__": kind.__module__})
    return _BASES[kind, base]


PLAIN = {one.__name__: one for one in (int, float, complex, str, bytes, list, tuple, dict, set, frozenset)}


def register(made: Any, library: list[Any]) -> None:
    """The class is of these abstract ones of the library, too."""
    for module, name in library:
        found = link.find(module, name) if module in _ABSTRACT else None
        if isinstance(found, type) and hasattr(found, "register"):
            found.register(made)


_ABSTRACT = {"collections.abc", "abc", "numbers", "contextlib", "io", "typing", "os"}
