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
          class says so, both hold the same, and that tells them from others: it holds what the tests made the other of,
          under the names that the class takes it by, and did so before the other was made. It equals no plain value,
          and is told of none.
          It is consistent: what it iterates stays the same until the tests ask for something else, it's as long as
          that, and has the same items by their numbers. Its attributes stay the same until something is done with the
          program's objects.
ATTRIBUTE of what was HANDED: as that, but never called, be it a class or a type of Python's own.

Every object is the same number, text, length and truth until something is done, or a moment has passed.

All else raises CannotCross, as does what can't be done from another process.
"""

import types
from typing import Any

from sandbox_service.cage.objects import answers, equality, grades, methods, operators, protocols
from sandbox_service.cage.wire.errors import CannotCross


def may_be_swallowed(error: object) -> bool:
    """By an object of the program whose block it ends: but never that a test failed, nor what the program raised."""
    is_the_tests = isinstance(error, Exception) and not isinstance(error, AssertionError)
    return is_the_tests and not hasattr(error, "from_program")


# Questions about a string, a number or a set, that an object could answer with yes.
PREDICATES = {
    name
    for kind in (str, int, float, set, bytes)
    for name in dir(kind)
    if name.startswith(("is", "startswith", "endswith"))
}


class ProxyClass(type):
    # What a class of the program is to the tests: calling it makes an object over there.
    __doc__: Any = property(lambda made: methods.doc_of_class(made))
    __bases__: Any = property(lambda made: methods.bases_of_class(made))
    __mro__: Any = property(lambda made: methods.mro_of_class(made))

    __program__: Any
    _class_place: int | None
    __specials__: frozenset[str]
    __known__: bool
    __of_tests__: bool

    def __new__(mcs, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], **more: Any) -> Any:
        if "_class_place" in namespace:
            return super().__new__(mcs, name, bases, namespace)
        made: Any = super().__new__(mcs, name, bases, {**namespace, "__known__": True, "__of_tests__": True})
        made.__program__.classes.extend(made, bases, namespace)
        return made

    def __call__(cls, /, *arguments: object, **keywords: object) -> Any:
        if cls._class_place is None:
            raise CannotCross("a test calls the class of an object that the program made, by no name that it knows")
        known = cls if cls.__known__ else None
        equality.read_before(cls.__program__, cls)
        made = cls.__program__.ask_for(grades.Grade(grades.HANDED, known), "make", cls, *arguments, **keywords)
        if isinstance(made, Proxy) and rank_of(made) is grades.MADE:
            set_slot(made, "_made_of", (arguments, keywords))
            cls.__program__.keep_made(made)
        return made

    def __getattr__(cls, name: str) -> Any:
        if name == "__dataclass_fields__":
            cls.__program__.asked = True
            return methods.fields_of(cls)
        if name == "__signature__" and cls._class_place is not None:
            return methods.signature_of(cls)
        if (name.startswith("__") and name not in _OF_KINDS) or cls._class_place is None:
            raise AttributeError(name)
        return cls.__program__.ask_for(grades.OF_METHOD if cls.__known__ else grades.OF_ATTRIBUTE, "getattr", cls, name)

    def __setattr__(cls, name: str, value: object) -> None:
        if name.startswith("__") or name in _OF_CLASSES:
            super().__setattr__(name, value)
        else:
            cls.__program__.ask("setattr", cls, name, value)

    def __instancecheck__(cls, value: object) -> bool:
        if cls.__program__ is None:
            return type.__instancecheck__(cls, value)
        cls.__program__.asked = True
        if type.__instancecheck__(cls, value):
            return True
        if protocol := cls.__facts__.get("protocol"):
            return all(hasattr(value, name) for name in protocol)
        if "checks" in cls.__facts__ and isinstance(value, Proxy):
            return bool(cls.__program__.ask("isinstance", value, cls))
        # a namedtuple crosses by its value
        return isinstance(value, tuple) and hasattr(value, "_fields") and type(value).__name__ == cls.__name__

    def __subclasscheck__(cls, kind: type) -> bool:
        if cls.__program__ is None:
            return type.__subclasscheck__(cls, kind)
        cls.__program__.asked = True
        if type.__subclasscheck__(cls, kind):
            return True
        lent = isinstance(kind, ProxyClass) and kind._class_place is not None
        return bool(lent and "checks" in cls.__facts__ and cls.__program__.ask("issubclass", kind, cls))

    def __eq__(cls, other: object) -> bool:
        if isinstance(other, Proxy):
            return place(other) == cls._class_place
        return cls is other

    def __hash__(cls) -> int:
        return type.__hash__(cls)


# Put there afterwards, as in the body they would be its own.
ProxyClass.__annotations__ = property(lambda made: methods.annotations_of_class(made))  # type: ignore[assignment]
ProxyClass.__slots__ = property(lambda made: methods.slots_of_class(made))  # type: ignore[attr-defined]
_OF_CLASSES = {"__program__", "_class_place", "__specials__", "__known__", "__of_tests__"}
# What classes tell of themselves, beside what Python keeps in them.
_OF_KINDS = {"__match_args__", "__wrapped__"}
_RECORDS = "__records__"  # the names of these, where there are any: ratchet_problems.helpers writes it
_SLOTS = (
    "_at", "_items", "_made_of", "_rank", "_came_back", "_exhausted", "_answers", "_is_difference", "_read",
    "_was_given", "__weakref__",
)  # fmt: skip


class Proxy(metaclass=ProxyClass):
    """An object in the program's process."""

    _class_place = None
    # without annotations of its own: those are the object's
    __annotations__ = property(lambda self: methods.annotations_of(self))
    __specials__ = frozenset[str](())
    __facts__ = types.MappingProxyType[str, Any]({})
    __known__ = __of_tests__ = False
    __program__ = None
    __slots__ = _SLOTS

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        if "slots" in type(self).__facts__:
            raise AttributeError("__dict__")
        return held(self)

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        """A record of the problem's prompt is the tests' and the program's, and isinstance must know one by the other.
        What the object holds is compared all the same. No other class of the tests can be had by its name."""
        kind: Any = type(self)
        name, tests = kind.__name__, kind.__program__.tests
        if name in tests.get(_RECORDS, ()):
            return tests.get(name, kind)
        python, base = kind.__facts__.get("python"), kind.__facts__.get("base")
        if python is not None:
            return methods.PYTHONS[python]
        return methods.class_over(kind, base) if base and rank_of(self) is grades.MADE else kind

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        kind: Any = type(self)
        return kind.__program__.ask_for(grades.OF_ATTRIBUTE, "getattr", self, "__doc__")

    def __getattr__(self, name: str) -> Any:
        kind, rank = type(self), rank_of(self)
        if rank is grades.MADE and slot_of(self, "_came_back") and name in PREDICATES:
            raise CannotCross(f"a test asks {name} of an object that the program gave")
        if name == "__dataclass_fields__":
            return getattr(kind, name)
        if name == "__annotations__":
            return methods.annotations_of(self)
        if name == "__code__" and "python" in kind.__facts__:
            return methods.code_of(kind.__program__, self)
        if name.startswith("__") and name not in methods.OF_FUNCTIONS:
            raise AttributeError(name)
        if name in ("send", "throw", "close") and kind.__facts__.get("python") == "generator":
            return protocols.of_generator(self, name)
        if rank in (grades.MADE, grades.METHOD):
            return kind.__program__.ask_for(grades.OF_METHOD, "getattr", self, name)
        grade = grades.OF_NAMED if rank is grades.NAMED else grades.OF_ATTRIBUTE
        return answers.once(self, f".{name}", lambda: kind.__program__.ask_for(grade, "getattr", self, name))

    def __setattr__(self, name: str, value: object) -> None:
        type(self).__program__.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        type(self).__program__.ask("delattr", self, name)

    def __eq__(self, other: object) -> Any:
        return equality.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return equality.unequal(self, other)

    def __hash__(self) -> int:
        if "__hash__" not in type(self).__specials__:
            return hash(place(self))
        return answers.answer(self, "__hash__")  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return operators.truth(self)

    def __str__(self) -> str:
        return str(answers.answer(self, "__str__"))

    def __repr__(self) -> str:
        return str(answers.answer(self, "__repr__"))

    def __format__(self, how: str) -> str:
        return str(answers.answer(self, "__format__", how))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CannotCross("a test copies or pickles an object of the program")

    __copy__, __deepcopy__ = protocols.Copied("copy"), protocols.Copied("deepcopy")


def held(proxy: Proxy) -> Any:
    """What an object holds, by name."""
    return type(proxy).__program__.ask_for(
        grades.OF_MADE if rank_of(proxy) is grades.MADE else grades.OF_ATTRIBUTE, "vars", proxy
    )


def slot_of(proxy: Proxy, slot: str) -> Any:
    return object.__getattribute__(proxy, slot)


def set_slot(proxy: Proxy, slot: str, value: object) -> None:
    object.__setattr__(proxy, slot, value)


def place(proxy: Proxy) -> int:
    return slot_of(proxy, "_at")  # type: ignore[no-any-return]


def rank_of(proxy: Proxy) -> grades.Standing:
    return slot_of(proxy, "_rank")  # type: ignore[no-any-return]


def class_place(made: ProxyClass) -> Any:
    return made._class_place


def grade_within(proxy: Proxy) -> grades.Grade:
    """Of what an object holds or gives."""
    rank = rank_of(proxy)
    return (
        grades.OF_MADE
        if rank is grades.MADE or rank is grades.METHOD
        else grades.OF_ATTRIBUTE
        if rank is grades.ATTRIBUTE
        else grades.OF_HANDED
    )


def make_proxy(kind: type[Proxy], at: int, rank: grades.Standing) -> Any:
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
        ("_read", None),
        ("_was_given", False),
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
