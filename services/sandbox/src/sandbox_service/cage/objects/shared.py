"""Objects that program and tests both hold, each in a copy of its own: what one changes in place, the other sees.

An object that crosses gets a number. Before anything is said to the other side, what has changed since the last time is
found by what the objects held then, item by item, and goes along. What nobody but this table holds any more is dropped.
"""

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from sandbox_service.cage.wire import arrays, library


class Shared:
    """By number. `step`: 1 where the numbers that are given here count up, -1 where they count down. `room`: more
    objects than that get no number, as each is looked at before anything is said; None: there is always room."""

    def __init__(self, step: int, room: int | None) -> None:
        self._step, self._room = step, room
        self._last = 0
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # by id
        self._before: dict[int, Any] = {}

    def number(self, value: object) -> int | None:
        return self._numbers.get(id(value))

    def is_full(self) -> bool:
        return self._room is not None and len(self._objects) >= self._room

    def give_number(self, value: object) -> int:
        self._last += self._step
        self._hold(self._last, value)
        return self._last

    def take(self, number: int, value: object) -> None:
        """An object that the other side gave a number."""
        if number * self._step > 0 or number in self._objects:
            raise ValueError("no new number of the other side")
        self._hold(number, value)

    def _hold(self, number: int, value: object) -> None:
        self._objects[number] = value
        self._numbers[id(value)] = number

    def __getitem__(self, number: int) -> Any:
        return self._objects[number]

    def seen(self, number: int) -> None:
        """What the other side knows of it is what it holds now."""
        self._before[number] = contents(self._objects[number])

    def changed(self) -> Iterator[tuple[int, Any]]:
        """What the other side doesn't know, and that it's told now."""
        for number, before in list(self._before.items()):
            now = contents(value := self._objects[number])
            if not _same(before, now):
                self._before[number] = now
                yield number, value

    def drop(self, numbers: list[int]) -> None:
        for number in numbers:
            value = self._objects.pop(number, None)
            self._before.pop(number, None)
            if value is not None:
                del self._numbers[id(value)]

    def idle(self) -> list[int]:
        """Drops what came from the other side and is held by nobody here, and returns the numbers."""
        found: list[int] = []
        while True:
            alone = [
                number
                for number in self._before
                if number * self._step < 0 and sys.getrefcount(self._objects[number]) <= _ALONE
            ]
            if not alone:
                return found
            self.drop(alone)
            found += alone


def _count_alone() -> int:
    objects = {0: object()}
    return sys.getrefcount(objects[0])


_ALONE = _count_alone()


def is_mutable(value: object) -> bool:
    """Of exactly one of the types that are shared."""
    kind = type(value)
    if kind is list or kind is dict or kind is set:
        return True
    known = library.MUTABLES.get(kind.__name__)
    if known is not None:
        return known.is_of(kind)
    return kind.__module__.partition(".")[0] == "numpy" and f"numpy.{kind.__name__}" in arrays.MUTABLE


def contents(value: Any) -> Any:
    """What tells whether it has changed: a list of items, compared by identity, or something compared by value."""
    kind = type(value)
    if kind is list or kind is set:
        return list(value)
    if kind is dict:
        return [*value, *value.values()]
    name = kind.__name__
    if name in ("Counter", "OrderedDict", "defaultdict"):
        return [*value, *dict.values(value)]
    if name in ("deque", "UserList"):
        return list(value)
    if name == "UserDict":
        return [*value.data, *value.data.values()]
    if name == "SimpleNamespace":
        return [*value.__dict__, *value.__dict__.values()]
    if name in ("ndarray", "matrix"):
        items = value.ravel().tolist() if value.dtype.hasobject else value.tobytes()
        return items if isinstance(items, list) else (items, value.shape, value.dtype)
    if name == "Generator":
        return repr(value.bit_generator.state)
    if name == "RandomState":
        return repr(value.get_state(legacy=False))
    return library.MUTABLES[name].parts(value)


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, list):
        return len(before) == len(now) and all(map(operator.is_, before, now))
    return bool(before == now)


def make(form: Any, register: Callable[[Any], None], decode: Callable[[Any], Any]) -> Any:
    """A new object of the form of one, known to `register` before what it holds is decoded: that may be itself."""
    made: Any
    if isinstance(form, list):
        made = []
    else:
        ((tag, body),) = form.items()
        if tag == "l" and str(body[0]).startswith("numpy."):
            made = arrays.build(body[0], [decode(part) for part in body[1:]])
            register(made)
            return made
        made = (
            {} if tag == "d" else set() if tag == "s" else library.empty(body[0], [decode(part) for part in body[2:]])
        )
    register(made)
    fill(made, form, decode)
    return made


def fill(value: Any, form: Any, decode: Callable[[Any], Any]) -> None:
    """Makes the object what the form says. Raises ValueError for the form of something else."""
    kind = type(value)
    if isinstance(form, list):
        if kind is not list:
            raise ValueError("another kind")
        value[:] = decode(form)
        return
    ((tag, body),) = form.items()
    if tag == "l":
        name, parts = body[0], [decode(part) for part in body[1:]]
        if name.startswith("numpy."):
            arrays.fill(value, name, parts)
            return
        known = library.MUTABLES[name]
        if not known.is_of(kind) or known.fill is None:
            raise ValueError("another kind")
        known.fill(value, *parts)
    elif kind is {"d": dict, "s": set}.get(tag):
        items = decode(form)
        value.clear()
        value.update(items)
    else:
        raise ValueError("another kind")
