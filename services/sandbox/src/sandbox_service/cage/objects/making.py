"""The classes that tests hold in place of the program's: standing.py says what they may be used for."""

from typing import Any

from sandbox_service.cage.objects import grades, methods, operators, protocols, standing
from sandbox_service.cage.objects.proxy import Proxy, ProxyClass
from sandbox_service.cage.wire import channel


def make_class(
    name: str,
    parents: tuple[Any, ...],
    program: Any,
    at: int | None,
    is_known: bool,
    specials: list[str],
    functions: list[str],
    facts: dict[str, Any],
) -> Any:
    """`at`: the place of the class itself, if the program lent that. `facts`: see owner.facts.

    Raises ValueError for a wrong function name.
    """
    if not all(one.isidentifier() and (one[0] != "_" or one == "__init__") for one in functions):
        raise ValueError("a function with the name of one of ours")
    if facts.get("python") not in (None, *methods.PYTHONS) or facts.get("base") not in (None, *methods.PLAIN):
        raise ValueError("no such type")
    namespace: dict[str, Any] = {
        "_class_place": at, "__program__": program, "__known__": is_known, "__of_tests__": parents[0].__of_tests__,
        "__specials__": frozenset(specials), "__facts__": facts, "__slots__": (), "__module__": "solution",
        "__doc__": vars(Proxy)["__doc__"], **{one: methods.Method(one) for one in functions},
        **{one: _OPERATORS[one] for one in specials if one in _OPERATORS},
    }  # fmt: skip
    if "__eq__" in specials and "__hash__" not in specials:
        namespace["__hash__"] = None
    namespace |= {one: protocols.descriptor(one) for one in facts.get("descriptor", ()) if one in channel.DESCRIPTORS}
    if facts.get("binds"):
        namespace["__get__"] = protocols.bind
    if "subscript" in facts:
        namespace["__class_getitem__"] = classmethod(_item if facts["subscript"] == "own" else lambda made, _: made)
    try:
        made = ProxyClass(name, parents, namespace)
    except TypeError:  # no class can have them all
        made = ProxyClass(name, parents[:1], namespace)
    for one in functions:
        namespace[one].__qualname__ = f"{name}.{one}"
        namespace[one].of_class = made
    if abstract := facts.get("abstract"):
        type.__setattr__(made, "__abstractmethods__", frozenset(map(str, abstract)))
    methods.register(made, facts.get("library", []))
    return made


def _item(made: Any, key: object) -> Any:
    grade = grades.OF_METHOD if made.__known__ else grades.OF_ATTRIBUTE
    return made.__program__.ask_for(grade, "item", made, key)


_OPERATORS = operators.OPERATORS | protocols.OPERATORS


def class_as_object(program: Any, at: int, rank: grades.Standing) -> Any:
    """A class that the program handed out: the tests may not use it as one that they know."""
    return standing.make_proxy(make_class("type", (Proxy,), program, None, False, ["__call__"], [], {}), at, rank)
