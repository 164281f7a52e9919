"""What tests may do with objects of the program's own classes: a pass rests on plain values that the tests compare.

What a proxy is asked is answered by the program, so an answer is its word. What counts depends on where the tests have
the object from, by the way it came and not by which it is:

MADE      by calling a class of the program that the tests know by its name, in capitals. Its methods and operators
          are what's tested: all may be used, also those of what they give that is of such a class.
METHOD    of such an object or class: it may be called.
NAMED     a function that the tests know by its name, or the entry point. What it gives is HANDED.
HANDED    what the program gave by itself. It may be called, iterated, indexed by a key, made a string or a number of,
          and its attributes be read: all that gives values which the tests then compare. No more than that: else
          `assert f(1).startswith("a")` would pass for an object that says yes. It equals an object of its class if the
          class says so, both hold the same, and what the tests made one of is in it. It equals no plain value, and is
          told of none. It is consistent: what it iterates stays the same until the tests ask for something else, it's
          as long as that, and has the same items by their numbers.
ATTRIBUTE of what was HANDED: as that, but never called, be it a class or a type of Python's own.

All else raises CannotCross, as does what can't be done from another process.
"""

import enum
from typing import Any

import operators


class CannotCross(BaseException):
    """A test does with an object what it can't do from another process: no error of the program, so none to expect."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; tests that need it are for the shared kind of grading")


class Standing(enum.Enum):
    MADE = 1
    METHOD = 2
    NAMED = 3
    HANDED = 4
    ATTRIBUTE = 5


MADE, METHOD, NAMED, HANDED, ATTRIBUTE = Standing


class Grade:
    """What standing objects in an answer have. `made`: a class whose objects the tests just made."""

    __slots__ = ("made", "rank", "sharing")

    def __init__(self, rank: Standing, made: Any = None, sharing: bool = False) -> None:
        self.rank, self.made, self.sharing = rank, made, sharing

    def of(self, kind: Any) -> Standing:
        if self.made is not None:
            return MADE if issubclass(kind, self.made) else HANDED
        if self.rank is MADE or self.rank is METHOD:
            if kind._is_known:
                return MADE
            return METHOD if self.rank is METHOD and "__call__" in kind._specials else HANDED
        return MADE if kind._of_tests else self.rank


def standing_of_all(rank: Standing) -> Grade:
    return Grade(rank)


_OWN = Grade(MADE)
_METHODS = Grade(METHOD, sharing=True)
_NAMED = Grade(NAMED)
_HANDED = Grade(HANDED)
_ATTRIBUTE = Grade(ATTRIBUTE)
# Questions about a string, a number or a set, that an object could answer with yes.
PREDICATES = {
    name
    for kind in (str, int, float, set, bytes)
    for name in dir(kind)
    if name.startswith(("is", "startswith", "endswith"))
}
# What functions tell of themselves.
_OF_FUNCTIONS = {"__name__", "__qualname__", "__doc__", "__wrapped__", "__module__", "__defaults__", "__annotations__"}


class ProxyClass(type):
    """What a class of the program is to the tests: calling it makes an object over there."""

    _program: Any
    _class_place: int | None
    _specials: frozenset[str]
    _is_known: bool
    _of_tests: bool

    def __new__(mcs, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], **more: Any) -> Any:
        if "_class_place" in namespace:
            return super().__new__(mcs, name, bases, namespace)
        made: Any = super().__new__(mcs, name, bases, {**namespace, "_is_known": True, "_of_tests": True})
        made._program.extend(made, bases, namespace)
        return made

    def __call__(cls, *arguments: object, **keywords: object) -> Any:
        known = cls if cls._is_known else None
        made = cls._program.ask_for(Grade(HANDED, known), "make", cls, *arguments, **keywords)
        if isinstance(made, Proxy) and rank_of(made) is MADE:
            _set(made, "_made_of", (*arguments, *keywords.values()))
        return made

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or cls._class_place is None:
            raise AttributeError(name)
        return cls._program.ask_for(_METHODS if cls._is_known else _ATTRIBUTE, "getattr", cls, name)

    def __setattr__(cls, name: str, value: object) -> None:
        if name.startswith("__") or name in _OF_CLASSES:
            super().__setattr__(name, value)
        else:
            cls._program.ask("setattr", cls, name, value)

    def __instancecheck__(cls, value: object) -> bool:
        if type.__instancecheck__(cls, value):
            return True
        # a namedtuple crosses by its value
        return isinstance(value, tuple) and hasattr(value, "_fields") and type(value).__name__ == cls.__name__

    def __eq__(cls, other: object) -> bool:
        if isinstance(other, Proxy):
            return place(other) == cls._class_place
        return cls is other

    def __hash__(cls) -> int:
        return type.__hash__(cls)


_OF_CLASSES = {"_program", "_class_place", "_specials", "_is_known", "_of_tests"}
_SLOTS = ("_at", "_items", "_made_of", "_rank", "_came_back", "_exhausted", "__weakref__")


class Proxy(metaclass=ProxyClass):
    """An object in the program's process."""

    _class_place = None
    _specials: frozenset[str] = frozenset()
    _is_known = _of_tests = False
    _program = None
    __slots__ = _SLOTS

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return type(self)._program.ask_for(_OWN if rank_of(self) is MADE else _ATTRIBUTE, "vars", self)

    def __getattr__(self, name: str) -> Any:
        kind, rank = type(self), rank_of(self)
        if rank is MADE and _get(self, "_came_back") and name in PREDICATES:
            raise CannotCross(f"a test asks {name} of an object that the program gave")
        if name.startswith("__") and name not in _OF_FUNCTIONS:
            raise AttributeError(name)
        if rank in (MADE, METHOD):
            return kind._program.ask_for(_METHODS, "getattr", self, name)
        return kind._program.ask_for(_NAMED if rank is NAMED else _ATTRIBUTE, "getattr", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        type(self)._program.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        type(self)._program.ask("delattr", self, name)

    def __eq__(self, other: object) -> Any:
        return operators.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return not operators.equal(self, other)

    def __hash__(self) -> int:
        if "__hash__" not in type(self)._specials:
            return hash(place(self))
        return type(self)._program.ask("special", self, "__hash__")  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return operators.truth(self)

    def __str__(self) -> str:
        return str(type(self)._program.ask("special", self, "__str__"))

    def __repr__(self) -> str:
        return str(type(self)._program.ask("special", self, "__repr__"))

    def __format__(self, how: str) -> str:
        return str(type(self)._program.ask("special", self, "__format__", how))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CannotCross("a test copies or pickles an object of the program")


def class_as_object(program: Any, at: int, rank: Standing) -> Any:
    """A class that the program handed out: the tests may not use it as one that they know."""
    return make_proxy(make_class("type", Proxy, program, None, False, ["__call__"], []), at, rank)


def _get(proxy: Proxy, slot: str) -> Any:
    return object.__getattribute__(proxy, slot)


def _set(proxy: Proxy, slot: str, value: object) -> None:
    object.__setattr__(proxy, slot, value)


def place(proxy: Proxy) -> int:
    return _get(proxy, "_at")  # type: ignore[no-any-return]


def rank_of(proxy: Proxy) -> Standing:
    return _get(proxy, "_rank")  # type: ignore[no-any-return]


def class_place(made: ProxyClass) -> Any:
    return made._class_place


def _grade_within(proxy: Proxy) -> Grade:
    """Of what an object holds or gives."""
    rank = rank_of(proxy)
    return _OWN if rank is MADE or rank is METHOD else _ATTRIBUTE if rank is ATTRIBUTE else _HANDED


def make_proxy(kind: type[Proxy], at: int, rank: Standing) -> Any:
    made = object.__new__(kind)
    for slot, value in (
        ("_at", at),
        ("_rank", rank),
        ("_items", None),
        ("_made_of", ()),
        ("_came_back", False),
        ("_exhausted", False),
    ):
        _set(made, slot, value)
    return made


def is_in(given: Any, proxy: Proxy, depth: int = 0) -> bool:
    """Whether it is among what the tests gave along, in lists and the like as well."""
    if given is proxy:
        return True
    kind = type(given)
    if depth > 10 or kind not in (list, tuple, dict, set, frozenset):
        return False
    return any(is_in(item, proxy, depth + 1) for item in (given.values() if kind is dict else given))


def came_back(proxy: Proxy) -> None:
    _set(proxy, "_came_back", True)


def make_class(
    name: str, parent: Any, program: Any, at: int | None, is_known: bool, specials: list[str], functions: list[str]
) -> Any:
    """`at`: the place of the class itself, if the program lent that. Raises ValueError for a wrong function name."""
    if not all(one.isidentifier() and (one[0] != "_" or one == "__init__") for one in functions):
        raise ValueError("a function with the name of one of ours")
    namespace: dict[str, Any] = {
        "_class_place": at, "_program": program, "_is_known": is_known, "_of_tests": parent._of_tests,
        "_specials": frozenset(specials), "__slots__": (), **{one: _function(one) for one in functions},
        **{one: operators.OPERATORS[one] for one in specials if one in operators.OPERATORS},
    }  # fmt: skip
    if "__eq__" in specials and "__hash__" not in specials:
        namespace["__hash__"] = None
    made = ProxyClass(name, (parent,), namespace)
    for one in functions:
        namespace[one].__qualname__ = f"{name}.{one}"
        namespace[one].of_class = made
    return made


def _function(name: str) -> Any:
    """A method, as a class has it."""

    def method(self: Any, *arguments: object, **keywords: object) -> Any:
        kind = method.of_class  # type: ignore[attr-defined]
        if not isinstance(self, Proxy) or rank_of(self) is not MADE:
            raise CannotCross(
                f"a test calls the method {name!r} of an object that the program made, whose word alone would count"
            )
        if _get(self, "_came_back") and name in PREDICATES:
            raise CannotCross(f"a test asks {name} of an object that the program gave")
        if kind._class_place is None or type(self) is kind:
            return kind._program.ask_for(_OWN, "method", self, name, *arguments, **keywords)
        return kind._program.ask_for(_OWN, "function", kind, name, self, *arguments, **keywords)

    method.__name__ = name
    return method
