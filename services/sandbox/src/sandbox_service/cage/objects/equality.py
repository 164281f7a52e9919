"""When two objects of the program are equal to the tests. The rules are in standing.py.

An object that the program handed out is read before the tests make another one to compare it with: what it held then
counts until the tests do something with it. So it can't take over what that one is made of.
"""

from typing import Any

from sandbox_service.cage.objects import grades, shared, standing
from sandbox_service.cage.objects.answers import REFUSED_WORD, ask
from sandbox_service.cage.wire.errors import CannotCross

_DEEPEST = 10
_MOST_IN_ANY_ORDER = 500


def is_made(value: Any) -> bool:
    return isinstance(value, standing.AnyProxy) and standing.rank_of(value) in (grades.MADE, grades.METHOD)


def is_new(value: Any) -> bool:
    """Made by the tests themselves, and not given by an object that they made."""
    return isinstance(value, standing.AnyProxy) and standing.slot_of(value, "_made_of") is not None


def is_unseen(proxy: Any) -> bool:
    """Made by the tests, and given to nobody."""
    return is_new(proxy) and not standing.slot_of(proxy, "_was_given")


def identity(value: Any) -> Any:
    """What `is` compares: of an object of the program the same, however the tests came by it."""
    kind = type(value)
    return kind.__program__.identity(value) if isinstance(kind, standing.AnyProxyClass) else value


def _is_handed(proxy: Any) -> bool:
    return standing.rank_of(proxy) in (grades.HANDED, grades.ATTRIBUTE)


def equal(one: Any, other: Any) -> bool:
    """Never asks with a plain value: the object would learn what was expected, and could agree."""
    if one is other:
        return True
    if isinstance(other, standing.AnyProxyClass):
        return bool(standing.class_place(other) == standing.place(one))
    if not isinstance(other, standing.AnyProxy):
        return is_made(one) and _equals_plain(one, other)
    if standing.place(one) == standing.place(other):
        if is_unseen(one) or is_unseen(other):
            raise CannotCross("a test compares an object of its own with itself")
        return True
    if "__eq__" not in type(one).__specials__ or not _says_equal(one, other):
        return False
    if is_new(one) and is_new(other):
        type(one).__program__.orders.note(one, other)
        return True
    if _hold_the_same(one, other, set()) and _shows(one, other):
        return True
    if is_made(one) and is_made(other) and _hold_in_any_order(one, other) and _shows(one, other):
        type(one).__program__.orders.rely_on(type(one))
        return True
    raise CannotCross(f"a test compares two objects, and {REFUSED_WORD}")


def unequal(one: Any, other: Any) -> bool:
    """As `not equal`, and what the tests made may say itself that it isn't a plain value. It may not say that it is."""
    if (
        not is_made(one)
        or isinstance(other, standing.AnyProxy | standing.AnyProxyClass)
        or _base(one) is not NotImplemented
    ):
        return not equal(one, other)
    if "__eq__" not in type(one).__specials__ or other is None:
        return True
    word = ask(one, "__ne__", other)
    if word is NotImplemented or word:
        return True
    raise CannotCross(f"a test compares an object with a {type(other).__name__}, and {REFUSED_WORD}")


def _says_equal(one: Any, other: Any) -> bool:
    word = ask(one, "__eq__", other)
    if word is NotImplemented:
        word = ask(other, "__eq__", one) if "__eq__" in type(other).__specials__ else False
    return word is not NotImplemented and bool(word)


def _equals_plain(one: Any, other: Any) -> bool:
    base = _base(one)
    if base is not NotImplemented:
        return bool(base == other)
    if "__eq__" in type(one).__specials__ and other is not None:
        raise CannotCross(f"a test compares an object with a {type(other).__name__}, and {REFUSED_WORD}")
    return False


def _base(one: Any) -> Any:
    """What it holds as a plain type, if it derives from one; else NotImplemented."""
    return type(one).__program__.ask("base", one)


def _hold_the_same(one: Any, other: Any, seen: set[tuple[int, int]]) -> bool:
    places = standing.place(one), standing.place(other)
    if places in seen or places[0] == places[1]:
        return True
    seen.add(places)
    mine, theirs = _held(one), _held(other)
    if not mine or mine.keys() != theirs.keys():
        return False
    return all(same(item, theirs[name], seen) for name, item in mine.items())


class Orders:
    """Classes whose objects are equal in any order of what they hold: a set that keeps a list, say. That is a class's
    word, unless the tests say so, too, by two objects that they make of the same in another order and find equal."""

    def __init__(self) -> None:
        self._shown: set[Any] = set()
        self._relied_on: set[Any] = set()

    def note(self, one: Any, other: Any) -> None:
        """The tests made both, and their class says that they are equal."""
        (positional, named), (others, others_named) = (standing.slot_of(it, "_made_of") for it in (one, other))
        if named.keys() != others_named.keys() or len(positional) != len(others) or type(one) in self._shown:
            return
        pairs = [*zip(positional, others, strict=True), *((item, others_named[name]) for name, item in named.items())]
        moved = [pair for pair in pairs if all(map(_is_of_values, pair)) and not same(*pair, set())]
        if moved and all(_same_in_any_order(*pair) for pair in moved):
            self._shown.add(type(one))

    def rely_on(self, kind: Any) -> None:
        self._relied_on.add(kind)

    def refusal(self) -> CannotCross | None:
        """Once the tests are through, so that it does not matter which come first."""
        if self._relied_on <= self._shown:
            return None
        return CannotCross(f"a test compares objects that hold the same in another order, and {REFUSED_WORD}")


def _is_of_values(value: Any) -> bool:
    return type(value) in (list, tuple) and not any(isinstance(item, standing.AnyProxy) for item in value)


def _hold_in_any_order(one: Any, other: Any) -> bool:
    mine, theirs = _held(one), _held(other)
    if not mine or mine.keys() != theirs.keys():
        return False
    return all(_same_in_any_order(item, theirs[name]) for name, item in mine.items())


def _same_in_any_order(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or not isinstance(one, list | tuple):
        return same(one, other, set())
    rest = list(other)
    if len(one) != len(rest) or len(rest) > _MOST_IN_ANY_ORDER:
        return False
    for item in one:
        place = next((place for place, it in enumerate(rest) if same(item, it, set())), None)
        if place is None:
            return False
        del rest[place]
    return True


def _shows(one: Any, other: Any) -> bool:
    """Whether what the objects hold tells them from others: else a class could hold the same in all its objects."""
    by_name = _is_handed(one) or _is_handed(other)
    return all(_tells(it, by_name) for it in (one, other) if is_new(it))


def _tells(proxy: Any, by_name: bool) -> bool:
    """Whether it holds what it was made of. `by_name`: under the names that its class takes it by, if it takes any;
    else anywhere, or another that was made of something else holds something else."""
    arguments, named = standing.slot_of(proxy, "_made_of")
    held = standing.held(proxy)
    if by_name and (arguments or named):
        takes = type(proxy).__facts__.get("takes", ())
        given = {**dict(zip(takes, arguments, strict=False)), **named}
        return len(arguments) <= len(takes) and all(
            any(key in held and same(item, held[key], set()) for key in _names(proxy, name))
            for name, item in given.items()
        )
    parts: list[Any] = []
    for item in held.values():
        parts += [item, *(item.values() if type(item) is dict else item if type(item) in (list, tuple) else ())]
    if all(any(same(given, part, set()) for part in parts) for given in (*arguments, *named.values())):
        return True
    made_of = arguments, named
    others = [one for one in type(proxy).__program__.made(type(proxy)) if standing.slot_of(one, "_made_of") != made_of]
    return any(not _hold_the_same(one, proxy, set()) for one in others)


def _names(proxy: Any, name: str) -> tuple[str, ...]:
    return name, f"_{name}", f"_{type(proxy).__name__.lstrip('_')}__{name}"


def same(one: Any, other: Any, seen: set[tuple[int, int]]) -> bool:
    proxies = [isinstance(item, standing.AnyProxy) for item in (one, other)]
    if any(proxies):
        return all(proxies) and type(one) is type(other) and _hold_the_same(one, other, seen)
    if type(one) is type(other) and isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(*pair, seen) for pair in zip(one, other, strict=True))
    if type(one) is type(other) is dict:
        return one.keys() == other.keys() and all(same(item, other[key], seen) for key, item in one.items())
    return bool(one == other)


# --- reading


def read_before(program: Any, made: Any) -> None:
    """The tests are about to make an object of this class: what they were handed of it is read."""
    for kind in [kind for kind in program.unread if type.__subclasscheck__(made, kind)]:
        for proxy in program.unread.pop(kind):
            if not is_new(proxy):
                _read(proxy, set())


def _read(proxy: Any, seen: set[int]) -> None:
    if standing.place(proxy) not in seen:
        seen.add(standing.place(proxy))
        held = _copied(standing.held(proxy), seen)
        standing.set_slot(proxy, "_read", (type(proxy).__program__.deeds, held))


def _copied(value: Any, seen: set[int]) -> Any:
    """What may change is copied: program and tests hold it in common."""
    kind = type(value)
    if kind in (list, tuple):
        return kind([_copied(item, seen) for item in value])
    if kind is dict:
        return {name: _copied(item, seen) for name, item in value.items()}
    if isinstance(value, standing.AnyProxy):
        _read(value, seen)
        return value
    return __import__("copy").deepcopy(value) if shared.is_mutable(value) else value


def _held(proxy: Any) -> Any:
    """What it held when it was read. What came of the methods that are tested may change by what is done after that."""
    read = standing.slot_of(proxy, "_read")
    if read is None or (not _is_handed(proxy) and read[0] != type(proxy).__program__.deeds):
        return standing.held(proxy)
    return read[1]


def note_given(given: Any, depth: int = 0) -> None:
    """Objects that the tests give along with what they do: the program has them, and may change them."""
    if isinstance(given, standing.AnyProxy):
        standing.set_slot(given, "_was_given", True)
        if standing.slot_of(given, "_read") is not None:
            standing.set_slot(given, "_read", None)
            type(given).__program__.keep_unread(given)
    elif depth <= _DEEPEST and type(given) in (list, tuple, dict, set, frozenset):
        for item in given.values() if type(given) is dict else given:
            note_given(item, depth + 1)
