"""Operators on proxies: which are asked of the program, and which are answered here. The rules are in standing.py."""

import itertools
import numbers
from collections.abc import Generator, Iterator
from typing import Any

from sandbox_service.cage.objects import answers, equality, grades, standing
from sandbox_service.cage.objects.answers import REFUSED_WORD, ask
from sandbox_service.cage.wire import channel
from sandbox_service.cage.wire.errors import CannotCross


def _rank(proxy: Any) -> Any:
    return standing.rank_of(proxy)


def truth(proxy: Any) -> bool:
    """An object is true, unless its class says otherwise; then it's the word of a class, and counts where that does."""
    specials = type(proxy).__specials__
    if "__bool__" in specials:
        if not equality.is_made(proxy):
            raise CannotCross(f"a test takes an object for true or false, and {REFUSED_WORD}")
        return bool(answers.answer(proxy, "__bool__"))
    return _len(proxy) > 0 if "__len__" in specials else True


def _len(self: Any) -> int:
    count = answers.answer(self, "__len__")
    if not equality.is_made(self) and sum(1 for _ in itertools.islice(_items(self), count + 1)) != count:
        raise CannotCross(f"a test takes the length of an object, and {REFUSED_WORD}")
    return count  # type: ignore[no-any-return]


def _items(self: Any) -> Any:
    specials = type(self).__specials__
    if "__iter__" in specials:
        return _iter(self)
    return iter(self) if "__getitem__" in specials else ()  # by numbers, until there's no such item


def _iter(self: Any) -> Iterator[Any]:
    program = type(self).__program__
    if equality.is_made(self):
        return _stream(program, self, program.ask_for(standing.grade_within(self), "iter", self))
    if "__next__" in type(self).__specials__ and _is_its_iterator(program, self):
        if standing.slot_of(self, "_exhausted"):
            raise CannotCross("a test iterates again over an iterator that had come to its end")
        return self  # type: ignore[no-any-return]
    kept = standing.slot_of(self, "_items")
    if kept is None or kept.epoch != program.epoch:
        kept = _Items(program, self)
        standing.set_slot(self, "_items", kept)
    return iter(kept)


def _is_its_iterator(program: Any, proxy: Any) -> bool:
    """An object may have `__next__` and yet give another to iterate it, as a MagicMock does."""
    if "python" in type(proxy).__facts__:
        return True
    grade = standing.grade_within(proxy)
    found = answers.once(proxy, "iter", lambda: program.ask_for(grade, "iter", proxy))
    return isinstance(found, standing.AnyProxy) and standing.place(found) == standing.place(proxy)


class _Items:
    """What an object gives when it's iterated, once for as long as nothing else is asked."""

    def __init__(self, program: Any, proxy: Any) -> None:
        self.epoch = program.epoch
        grade = standing.grade_within(proxy)
        self._items: list[Any] = []
        self._rest = _stream(program, proxy, program.ask_for(grade, "iter", proxy))

    def __iter__(self) -> Iterator[Any]:
        place = 0
        while True:
            if place == len(self._items):
                try:
                    self._items.append(next(self._rest))
                except StopIteration:
                    return
            yield self._items[place]
            place += 1


def _stream(program: Any, proxy: Any, iterator: Any) -> Generator[Any, None, Any]:
    """`iterator` may be here already: that of a list, say."""
    if not isinstance(iterator, standing.AnyProxy):
        return (yield from iterator)
    grade = standing.grade_within(proxy)
    while True:
        program.epoch += int(equality.is_made(proxy))  # what gives its items may have fewer then
        try:
            item = program.ask_for(grade, "next", iterator)
        except StopIteration as error:
            standing.set_slot(iterator, "_exhausted", True)
            return error.value
        yield item


def _next(self: Any) -> Any:
    try:
        return type(self).__program__.ask_for(standing.grade_within(self), "next", self)
    except StopIteration:
        standing.set_slot(self, "_exhausted", True)
        raise


def _call(self: Any, /, *arguments: object, **keywords: object) -> Any:
    if _rank(self) is grades.ATTRIBUTE:
        raise CannotCross("a test calls a method of one of the program's objects, and only that could answer")
    grade = grades.OF_MADE if equality.is_made(self) else grades.OF_HANDED
    return type(self).__program__.ask_for(grade, "call", self, *arguments, **keywords)


def _getitem(self: Any, key: Any) -> Any:
    if isinstance(key, slice) and not equality.is_made(self):
        raise CannotCross("a test takes a slice of one of the program's objects")
    item = type(self).__program__.ask_for(standing.grade_within(self), "item", self, key)
    numbered = isinstance(key, int) and "__iter__" in type(self).__specials__ and not equality.is_made(self)
    if numbered and not equality.same(item, _item_at(self, key), set()):
        raise CannotCross("a test reads another item of an object than the one that it has iterated to")
    return item


def _item_at(self: Any, key: int) -> Any:
    if key < 0:
        return list(_items(self))[key]
    return next(itertools.islice(_items(self), key, None), standing)


def _contains(self: Any, item: object) -> bool:
    if equality.is_made(self):
        return bool(ask(self, "__contains__", item))
    if "__iter__" not in type(self).__specials__:
        raise CannotCross(f"a test looks for a value in an object, and {REFUSED_WORD}")
    return any(one is item or one == item for one in self)


def _reversed(self: Any) -> Iterator[Any]:
    if equality.is_made(self):
        return _stream(type(self).__program__, self, ask(self, "__reversed__"))
    return iter(list(self)[::-1])


def _exit(self: Any, kind: Any, error: Any, trace: Any) -> bool:
    swallowed = type(self).__program__.ask("exit", self, error)
    return bool(swallowed) and standing.may_be_swallowed(error)


def _there(name: str) -> Any:
    def act(self: Any, *arguments: object) -> Any:
        type(self).__program__.epoch += 1
        return ask(self, name, *arguments)

    return act


def _converted(name: str) -> Any:
    return lambda self, *arguments: answers.answer(self, name, *arguments)


def _compared(name: str) -> Any:
    def compare(self: Any, other: object) -> Any:
        of_objects = equality.is_made(self) and equality.is_made(other)
        is_own = equality.is_new(self) and not standing.slot_of(self, "_came_back")
        if not of_objects and (isinstance(other, standing.AnyProxy) or not is_own):
            raise CannotCross(f"a test compares one of the program's objects, and {REFUSED_WORD}")
        return ask(self, name, other)

    return compare


def _computed(name: str) -> Any:
    def compute(self: Any, *others: object) -> Any:
        if not equality.is_made(self) and not all(isinstance(other, standing.AnyProxy) for other in others):
            raise CannotCross("a test computes with one of the program's objects, which would see the test's value")
        is_difference = _is_difference(name, self, others)
        if name == "__abs__":
            return answers.answer(self, name)
        if name[2] == "i":
            type(self).__program__.epoch += 1
        result = ask(self, name, *others)
        if is_difference and result is not NotImplemented:
            if not isinstance(result, standing.AnyProxy):
                raise CannotCross(f"a test takes the difference of an object and a number, and {REFUSED_WORD}")
            standing.set_slot(result, "_is_difference", True)
        return result

    return compute


def _is_difference(name: str, one: Any, others: Any) -> bool:
    """From a number, which may be the expected one: `abs(x - 2) < 1e-6`. What comes of it is one, too."""
    if any(standing.slot_of(it, "_is_difference") for it in (one, *others) if isinstance(it, standing.AnyProxy)):
        return True
    return name in _DIFFERENCES and any(isinstance(other, numbers.Number) for other in others)


_DIFFERENCES = ("__sub__", "__rsub__", "__isub__")

OPERATORS: dict[str, Any] = {
    **{name: _compared(name) for name in channel.COMPARISONS if name not in ("__eq__", "__ne__")},
    **{name: _computed(name) for name in channel.ARITHMETIC},
    **{name: _converted(name) for name in channel.CONVERSIONS if name not in ("__str__", "__repr__", "__format__")},
    **{name: _there(name) for name in ("__setitem__", "__delitem__", "__enter__")},
    "__len__": _len, "__iter__": _iter, "__next__": _next, "__call__": _call, "__getitem__": _getitem,
    "__contains__": _contains, "__reversed__": _reversed, "__exit__": _exit,
}  # fmt: skip
