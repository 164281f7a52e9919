"""What the program may do with objects that the tests hand to it, and how it's told what they are.

They stay with the tests. Functions, and whatever else can be called, may be called; iterators are asked for the next;
objects of a class that the tests define are used by the names that don't begin with an underscore, and by the operators
that their class has. Nothing leads from there to what the tests are made of: no underscore, no module, no frame, and
nothing of unittest, so that no program changes how they judge.
"""

import builtins
import types
from typing import Any

from sandbox_service.cage.objects import link
from sandbox_service.cage.objects.describe import annotations
from sandbox_service.cage.wire import channel

_OF_GENERATORS = ("send", "throw", "close")
_OF_FILES = ("read", "readline", "readlines", "write", "writelines", "seek", "tell", "flush", "close", "getvalue")
_READING = ("__iter__", "__len__", "__contains__", "__getitem__", "__reversed__")
_GENERATOR, _COROUTINE = 0x20, 0x80  # of a code's flags
_CONSTANTS = (int, float, complex, str, bytes, bool, type(None))
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class NotLent(Exception):
    """The object isn't one that a program may use."""


def describe(value: Any) -> list[Any]:
    """What the program's side makes a stand-in of: what it is, its name, its special methods, its parameters.

    Raises NotLent for what can't be lent.
    """
    kind = type(value)
    if isinstance(value, type):
        if not is_of_the_tests(value) or _is_of_unittest(value):
            raise NotLent(f"the class {value.__name__}")
        return ["class", value.__name__, channel.specials(value), None]
    if issubclass(kind, types.CoroutineType):
        return ["coroutine", "coroutine", [], None]
    if issubclass(kind, _FUNCTIONS) or hasattr(value, "__self__"):
        return ["function", getattr(value, "__name__", "function"), [], _parameters(value)]
    if _is_of_unittest(kind):
        if callable(value):  # a mock counts its calls, and that is all that a program may do with it
            return ["object", kind.__name__, ["__call__"], None]
        raise NotLent(f"a {kind.__name__}")
    if is_of_the_tests(kind):
        return ["object", kind.__name__, channel.specials(kind), None]
    if hasattr(kind, "__next__"):
        return ["object", kind.__name__, ["__iter__", "__next__"], None]
    if callable(value):  # functools.partial, operator.itemgetter
        return ["object", kind.__name__, ["__call__"], None]
    if hasattr(kind, "__iter__"):  # the view of a mapping
        return ["object", kind.__name__, [name for name in channel.specials(kind) if name in _READING], None]
    if kind is object:  # a sentinel: it's nothing but itself
        return ["object", "object", [], None]
    raise NotLent(f"a {kind.__name__}")


def words_of(function: Any) -> tuple[str | None, tuple[tuple[str, Any], ...], str, tuple[Any, ...] | None]:
    """Its docstring and annotations, which `functools.wraps` takes over, whether it's a "coroutine" or a "generator"
    function, and its defaults if all are values that never change: nothing that both sides would share."""
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType):
        return None, (), "", None
    flags, defaults = plain.__code__.co_flags, plain.__defaults__
    what = "coroutine" if flags & _COROUTINE else "generator" if flags & _GENERATOR else ""
    constant = defaults if defaults and all(type(one) in _CONSTANTS for one in defaults) else None
    if plain is not function:
        return None, (), what, constant
    doc = plain.__doc__
    return doc if type(doc) is str else None, tuple((annotations(plain) or {}).items()), what, constant


def is_of_the_tests(kind: type) -> bool:
    return kind.__module__ in ("__main__", "tests")


def _is_of_unittest(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] == "unittest" for base in kind.__mro__)


def _parameters(function: Any) -> list[Any] | None:
    """Names of those by position, how many have a default, the two that take the rest, names by keyword, as marked."""
    skipped = int(isinstance(function, types.MethodType))
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    names = list(code.co_varnames)
    count, more = code.co_argcount, code.co_kwonlyargcount
    rest = names[count + more :]
    return [
        names[skipped:count], len(function.__defaults__ or ()), rest.pop(0) if code.co_flags & 4 else None,
        rest[0] if code.co_flags & 8 else None, names[count : count + more], list(function.__kwdefaults__ or ()),
    ]  # fmt: skip


def attribute(value: Any, name: str) -> Any:
    """Raises AttributeError for what is none of the program's business, too."""
    _check_name(value, name)
    return getattr(value, name)


def set_attribute(value: Any, name: str, item: object) -> None:
    _check_change(value, name)
    setattr(value, name, item)


def delete_attribute(value: Any, name: str) -> None:
    _check_change(value, name)
    delattr(value, name)


def _check_change(value: Any, name: str) -> None:
    """A program changes what an object of the tests holds, and not what it does: no method, nothing that is called."""
    if isinstance(value, type) or not is_of_the_tests(type(value)) or _is_done(value, name):
        raise AttributeError(f"can't set attribute {name!r}")
    _check_name(value, name)


def _is_done(value: Any, name: str) -> bool:
    of_class = next((vars(kind)[name] for kind in type(value).__mro__ if name in vars(kind)), None)
    held = getattr(value, "__dict__", {}).get(name)
    is_method = hasattr(of_class, "__get__") and not hasattr(of_class, "__set__")
    return is_method or callable(of_class) or callable(held)


def special(value: Any, name: str, arguments: list[Any]) -> Any:
    if isinstance(value, type) or name not in describe(value)[2]:
        raise AttributeError(name)
    return getattr(type(value), name)(value, *arguments)


def _check_name(value: Any, name: str) -> None:
    kind = type(value)
    allowed = (
        not name.startswith("_")
        and not _is_of_unittest(kind)
        and (
            is_of_the_tests(value if isinstance(value, type) else kind)
            or (isinstance(value, types.GeneratorType) and name in _OF_GENERATORS)
            or (hasattr(kind, "readline") and name in _OF_FILES)
            or (isinstance(value, types.FunctionType) and name in value.__dict__)
        )
    )
    if not allowed:
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")


def run(coroutine: Any) -> Any:
    """Of a coroutine of the tests: in a thread of its own where a loop runs in this one."""
    import asyncio
    import threading

    if asyncio._get_running_loop() is None:
        return asyncio.run(coroutine)
    box: list[Any] = []

    def work() -> None:
        try:
            box.append((True, asyncio.run(coroutine)))
        except BaseException as error:  # noqa: BLE001 (it's raised again)
            box.append((False, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    done, value = box[0]
    if done:
        return value
    raise value


def error_class(kinds: list[str], known: dict[str, type[BaseException]]) -> Any:
    """That of the first kind: the builtin or the library's one, or one made for it over those of the other kinds.

    Of the library only what is loaded here: what isn't can't be caught here.
    """
    name, rest = kinds[0], kinds[1:]
    if found := _error_of_python(name) or known.get(name):
        return found
    bases = [error_class(rest, known) if rest else Exception]
    for other in filter(None, map(_error_of_python, rest)):
        if not any(issubclass(base, other) for base in bases):
            bases.append(other)
    try:
        made = type(name.rpartition(":")[2], tuple(bases), {})
    except TypeError:  # no class can have them all
        made = type(name.rpartition(":")[2], (bases[0],), {})
    known[name] = made
    return made


# Whose exceptions tell a test's runner what to do: to skip it, to stop.
_RUNNERS = ("unittest", "doctest", "bdb", "pdb")


def _error_of_python(name: str) -> Any:
    module, _, own = name.rpartition(":")
    if module.partition(".")[0] in _RUNNERS:
        return None
    found = link.loaded(module, own) if module else getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def attributes_of(namespace: dict[str, Any]) -> dict[str, Any]:
    """What the tests' subclass of a class of the program adds, for that one's process."""
    left_out = (
        "__module__",
        "__qualname__",
        "__classcell__",
        "__slots__",
        "__annotations__",
        "__firstlineno__",
        "__static_attributes__",
    )
    here = (property, staticmethod, classmethod)
    return {
        name: item
        for name, item in namespace.items()
        if name not in left_out and (isinstance(item, types.FunctionType) or not isinstance(item, here))
    }
