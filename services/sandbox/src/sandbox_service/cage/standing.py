"""What tests may do with objects of the program's own classes: a pass rests on plain values that the tests compare.

What a proxy is asked is answered by the program, so an answer is its word. What counts depends on where the tests have
the object from, by the way it came and not by which it is:

MADE      by calling a class of the program that the tests know by its name, in capitals. Its methods and operators
          are what's tested: all may be used, also those of what they give that is of such a class. But no object says
          how it stands to a plain value that may be the expected one: it equals none, and has no difference from a
          number that is a number; what its methods gave has no order with a plain value either. Two objects that the
          tests themselves made are equal if their class says so; of others, as HANDED.
METHOD    of such an object or class: it may be called.
NAMED     a function that the tests know by its name, or the entry point. What it gives is HANDED.
HANDED    what the program gave by itself. It may be called, iterated, indexed by a key, made a string or a number of,
          and its attributes be read: all that gives values which the tests then compare. No more than that: else
          `assert f(1).startswith("a")` would pass for an object that says yes. It equals an object of its class if the
          class says so, both hold the same, and that tells them from others: what the tests made one of is in it, or
          another that was made of something else holds something else. It equals no plain value, and is told of none.
          It is consistent: what it iterates stays the same until the tests ask for something else, it's as long as
          that, and has the same items by their numbers. Its attributes stay the same until something is done with the
          program's objects.
ATTRIBUTE of what was HANDED: as that, but never called, be it a class or a type of Python's own.

Every object is the same number, text, length and truth until something is done, or a moment has passed.

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
            if kind.__known__:
                return MADE
            return METHOD if self.rank is METHOD and "__call__" in kind.__specials__ else HANDED
        return MADE if kind._of_tests else self.rank


def standing_of_all(rank: Standing) -> Grade:
    return Grade(rank)


OF_MADE = Grade(MADE)
OF_METHOD = Grade(METHOD, sharing=True)
OF_NAMED = Grade(NAMED)
OF_HANDED = Grade(HANDED)
OF_ATTRIBUTE = Grade(ATTRIBUTE)
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

    __program__: Any
    _class_place: int | None
    __specials__: frozenset[str]
    __known__: bool
    _of_tests: bool

    def __new__(mcs, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], **more: Any) -> Any:
        if "_class_place" in namespace:
            return super().__new__(mcs, name, bases, namespace)
        made: Any = super().__new__(mcs, name, bases, {**namespace, "__known__": True, "_of_tests": True})
        made.__program__.extend(made, bases, namespace)
        return made

    def __call__(cls, /, *arguments: object, **keywords: object) -> Any:
        known = cls if cls.__known__ else None
        made = cls.__program__.ask_for(Grade(HANDED, known), "make", cls, *arguments, **keywords)
        if isinstance(made, Proxy) and rank_of(made) is MADE:
            set_slot(made, "_made_of", (*arguments, *keywords.values()))
            cls.__program__.keep_made(made)
        return made

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or cls._class_place is None:
            raise AttributeError(name)
        return cls.__program__.ask_for(OF_METHOD if cls.__known__ else OF_ATTRIBUTE, "getattr", cls, name)

    def __setattr__(cls, name: str, value: object) -> None:
        if name.startswith("__") or name in _OF_CLASSES:
            super().__setattr__(name, value)
        else:
            cls.__program__.ask("setattr", cls, name, value)

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


_OF_CLASSES = {"__program__", "_class_place", "__specials__", "__known__", "_of_tests"}
_SLOTS = (
    "_at", "_items", "_made_of", "_rank", "_came_back", "_exhausted", "_answers", "_is_difference", "__weakref__",
)  # fmt: skip


class Proxy(metaclass=ProxyClass):
    """An object in the program's process."""

    _class_place = None
    __specials__: frozenset[str] = frozenset()
    __known__ = _of_tests = False
    __program__ = None
    __slots__ = _SLOTS

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return type(self).__program__.ask_for(OF_MADE if rank_of(self) is MADE else OF_ATTRIBUTE, "vars", self)

    def __getattr__(self, name: str) -> Any:
        kind, rank = type(self), rank_of(self)
        if rank is MADE and slot_of(self, "_came_back") and name in PREDICATES:
            raise CannotCross(f"a test asks {name} of an object that the program gave")
        if name.startswith("__") and name not in _OF_FUNCTIONS:
            raise AttributeError(name)
        if rank in (MADE, METHOD):
            return kind.__program__.ask_for(OF_METHOD, "getattr", self, name)
        grade = OF_NAMED if rank is NAMED else OF_ATTRIBUTE
        return operators.once(self, f".{name}", lambda: kind.__program__.ask_for(grade, "getattr", self, name))

    def __setattr__(self, name: str, value: object) -> None:
        type(self).__program__.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        type(self).__program__.ask("delattr", self, name)

    def __eq__(self, other: object) -> Any:
        return operators.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return not operators.equal(self, other)

    def __hash__(self) -> int:
        if "__hash__" not in type(self).__specials__:
            return hash(place(self))
        return operators.answer(self, "__hash__")  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return operators.truth(self)

    def __str__(self) -> str:
        return str(operators.answer(self, "__str__"))

    def __repr__(self) -> str:
        return str(operators.answer(self, "__repr__"))

    def __format__(self, how: str) -> str:
        return str(operators.answer(self, "__format__", how))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CannotCross("a test copies or pickles an object of the program")


def class_as_object(program: Any, at: int, rank: Standing) -> Any:
    """A class that the program handed out: the tests may not use it as one that they know."""
    return make_proxy(make_class("type", Proxy, program, None, False, ["__call__"], []), at, rank)


def slot_of(proxy: Proxy, slot: str) -> Any:
    return object.__getattribute__(proxy, slot)


def set_slot(proxy: Proxy, slot: str, value: object) -> None:
    object.__setattr__(proxy, slot, value)


def place(proxy: Proxy) -> int:
    return slot_of(proxy, "_at")  # type: ignore[no-any-return]


def rank_of(proxy: Proxy) -> Standing:
    return slot_of(proxy, "_rank")  # type: ignore[no-any-return]


def class_place(made: ProxyClass) -> Any:
    return made._class_place


def grade_within(proxy: Proxy) -> Grade:
    """Of what an object holds or gives."""
    rank = rank_of(proxy)
    return OF_MADE if rank is MADE or rank is METHOD else OF_ATTRIBUTE if rank is ATTRIBUTE else OF_HANDED


def make_proxy(kind: type[Proxy], at: int, rank: Standing) -> Any:
    made = object.__new__(kind)
    for slot, value in (
        ("_at", at),
        ("_rank", rank),
        ("_items", None),
        ("_made_of", None),
        ("_came_back", False),
        ("_exhausted", False),
        ("_answers", None),
        ("_is_difference", False),
    ):
        set_slot(made, slot, value)
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
    set_slot(proxy, "_came_back", True)


def make_class(
    name: str, parent: Any, program: Any, at: int | None, is_known: bool, specials: list[str], functions: list[str]
) -> Any:
    """`at`: the place of the class itself, if the program lent that. Raises ValueError for a wrong function name."""
    if not all(one.isidentifier() and (one[0] != "_" or one == "__init__") for one in functions):
        raise ValueError("a function with the name of one of ours")
    namespace: dict[str, Any] = {
        "_class_place": at, "__program__": program, "__known__": is_known, "_of_tests": parent._of_tests,
        "__specials__": frozenset(specials), "__slots__": (), **{one: _function(one) for one in functions},
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

    def method(self: Any, /, *arguments: object, **keywords: object) -> Any:
        kind = method.of_class  # type: ignore[attr-defined]
        if not isinstance(self, Proxy) or rank_of(self) is not MADE:
            raise CannotCross(
                f"a test calls the method {name!r} of an object that the program made, whose word alone would count"
            )
        if slot_of(self, "_came_back") and name in PREDICATES:
            raise CannotCross(f"a test asks {name} of an object that the program gave")
        if kind._class_place is None or type(self) is kind:
            return kind.__program__.ask_for(OF_MADE, "method", self, name, *arguments, **keywords)
        return kind.__program__.ask_for(OF_MADE, "function", kind, name, self, *arguments, **keywords)

    method.__name__ = name
    return method
