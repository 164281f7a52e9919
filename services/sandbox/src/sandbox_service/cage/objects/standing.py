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
          program's objects. A method of its class, called without arguments, is as good as an attribute where no value
          of Python's own has one of that name and it neither says yes or no (`is_full()`) nor asserts: who calls it
          expects such an object (`node.next()`, `file.close()`), and no value that the object may stand for.
ATTRIBUTE of what was HANDED: as that, but never called, be it a class or a type of Python's own.

Every object is the same number, text, length and truth until something is done, or a moment has passed.

All else raises CannotCross, as does what can't be done from another process.
"""

from typing import Any

from sandbox_service.cage.objects import grades


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


_YES_OR_NO = ("is", "has", "assert")
# What Python's own values have, and in the last lines those of the library and numpy that answer for what they hold.
_OF_VALUES = {
    *(
        name
        for kind in (str, bytes, bytearray, memoryview, int, float, complex, list, tuple, dict, set, frozenset, range)
        for name in dir(kind)
    ),
    "all", "any", "argmax", "argmin", "exists", "item", "max", "mean", "min", "most_common", "prod", "std", "sum",
    "tolist", "total", "trace", "var",
}  # fmt: skip


class AnyProxyClass(type):
    """Stands for a class of the program. What it does is in proxy.py."""

    __program__: Any = None
    _class_place: int | None = None


class AnyProxy(metaclass=AnyProxyClass):
    """Stands for an object of the program, and knows where the tests have it from. What it does is in proxy.py."""

    __slots__ = (
        "__weakref__", "_answers", "_at", "_came_back", "_exhausted", "_is_difference", "_items", "_made_of", "_put",
        "_rank", "_read", "_was_given",
    )  # fmt: skip


def held(proxy: AnyProxy) -> Any:
    """What an object holds, by name."""
    return type(proxy).__program__.ask_for(
        grades.OF_MADE if rank_of(proxy) is grades.MADE else grades.OF_ATTRIBUTE, "vars", proxy
    )


def slot_of(proxy: AnyProxy, slot: str) -> Any:
    return object.__getattribute__(proxy, slot)


def set_slot(proxy: AnyProxy, slot: str, value: object) -> None:
    object.__setattr__(proxy, slot, value)


def put_in(proxy: AnyProxy) -> dict[str, Any]:
    """The tests' own in place of its methods, by name: called there, looked at here (a Mock)."""
    if slot_of(proxy, "_put") is None:
        set_slot(proxy, "_put", {})
    return slot_of(proxy, "_put")  # type: ignore[no-any-return]


def tells_by(it: object, method: str) -> bool:
    """A method of an object that the program gave is as good as an attribute, by its name."""
    given = isinstance(it, AnyProxy) and rank_of(it) is not grades.MADE
    return given and method not in _OF_VALUES and not method.startswith(_YES_OR_NO)


def place(proxy: AnyProxy) -> int:
    return slot_of(proxy, "_at")  # type: ignore[no-any-return]


def rank_of(proxy: AnyProxy) -> grades.Standing:
    return slot_of(proxy, "_rank")  # type: ignore[no-any-return]


def class_place(made: AnyProxyClass) -> Any:
    return made._class_place


def grade_within(proxy: AnyProxy) -> grades.Grade:
    """Of what an object holds or gives."""
    rank = rank_of(proxy)
    return (
        grades.OF_MADE
        if rank is grades.MADE or rank is grades.METHOD
        else grades.OF_ATTRIBUTE
        if rank is grades.ATTRIBUTE
        else grades.OF_HANDED
    )


def make_proxy(kind: type[AnyProxy], at: int, rank: grades.Standing) -> Any:
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
        ("_put", None),
    ):
        set_slot(made, slot, value)
    return made


def is_in(given: Any, proxy: AnyProxy, depth: int = 0) -> bool:
    """Whether it is among what the tests gave along, in lists and the like as well."""
    if given is proxy:
        return True
    kind = type(given)
    if depth > 10 or kind not in (list, tuple, dict, set, frozenset):
        return False
    return any(is_in(item, proxy, depth + 1) for item in (given.values() if kind is dict else given))


def came_back(proxy: AnyProxy) -> None:
    set_slot(proxy, "_came_back", True)
