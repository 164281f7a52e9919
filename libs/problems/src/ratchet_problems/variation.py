"""Inputs near those that tests have: EvalPlus' type-aware mutation (Liu et al. 2023, arXiv:2305.01210, table 2).

EvalPlus has contracts that people wrote; here what all known inputs have in common is taken for one, as Daikon does
(Ernst et al. 2007): a list is sorted, a number is not negative, one argument is the length of another.
"""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise, permutations
from typing import Any

_MOST_TRIES = 50


def near(seeds: Sequence[Sequence[Any]], count: int, seed: int) -> list[list[Any]]:
    """At most `count` lists of arguments that differ from the seeds and from each other, by one to three steps each,
    and have what all seeds have in common. The same seeds give the same."""
    drawn = random.Random(seed)
    pool = [list(one) for one in seeds]
    known = {repr(one) for one in pool}
    found: list[list[Any]] = []
    kept = [rule for rule in _rules(max(map(len, pool), default=0)) if all(map(rule, pool))]
    for _ in range(_MOST_TRIES * count if pool else 0):
        if len(found) == count:
            break
        one = copy.deepcopy(drawn.choice(pool))
        for _ in range(drawn.randint(1, 3)):
            if one:
                place = drawn.randrange(len(one))
                one[place] = _varied(one[place], drawn)
        if repr(one) not in known and all(rule(one) for rule in kept):
            known.add(repr(one))
            found.append(one)
            pool.append(one)
    return found


def _varied(value: Any, drawn: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return drawn.choice([value + 1, value - 1, -value, 0, value * 2, value + drawn.randint(-10, 10)])
        case float():
            return drawn.choice([value + 1, value - 1, -value, 0.0, value * 2, value / 2])
        case str():
            return _varied_text(value, drawn)
        case list():
            return _varied_list(value, drawn)
        case tuple():
            return tuple(_varied(one, drawn) if drawn.random() < 0.5 else one for one in value)
        case set() | frozenset():
            return type(value)(_varied_list(sorted(value, key=repr), drawn))
        case dict():
            return _varied_dict(value, drawn)
    return value


def _varied_text(value: str, drawn: random.Random) -> str:
    if not value:
        return drawn.choice(["a", " ", "0"])
    place = drawn.randrange(len(value))
    before, letter, after = value[:place], value[place], value[place + 1 :]
    other = drawn.choice([drawn.choice(value), letter.swapcase(), " ", "a", "Z", "0"])
    removed, inserted, replaced = before + after, before + other + letter + after, before + other + after
    return drawn.choice([removed, inserted, replaced, value + before, value[::-1], value.swapcase(), ""])


def _varied_list(value: list[Any], drawn: random.Random) -> list[Any]:
    if not value:
        return value
    place = drawn.randrange(len(value))
    before, one, after = value[:place], value[place], value[place + 1 :]
    other = _varied(one, drawn)
    removed, inserted, replaced = before + after, [*before, other, one, *after], [*before, other, *after]
    return drawn.choice([removed, inserted, replaced, [*value, one], value[::-1], []])


def _varied_dict(value: dict[Any, Any], drawn: random.Random) -> dict[Any, Any]:
    if not value:
        return value
    key = drawn.choice(list(value))
    if drawn.random() < 0.3:
        return {name: one for name, one in value.items() if name != key}
    return {**value, key: _varied(value[key], drawn)}


_Rule = Callable[[list[Any]], bool]


def _rules(count: int) -> Iterator[_Rule]:
    """Sentences on the arguments of a call that may be true of all; `count`: of arguments, at most."""
    yield lambda given: len(given) == count
    for place in range(count):
        for says in (_is_filled, _is_natural, _is_positive, _is_rising, _is_falling, _is_distinct, _is_of_one_type):
            yield partial(_holds, says, (place,))
    for places in permutations(range(count), 2):
        for relates in (_is_length, _is_within, _is_member, _is_as_long):
            yield partial(_holds, relates, places)


def _holds(says: Callable[..., bool], places: tuple[int, ...], given: list[Any]) -> bool:
    return len(given) <= max(places) or says(*(given[place] for place in places))


def _is_filled(value: Any) -> bool:
    return not hasattr(value, "__len__") or (len(value) > 0 and all(map(_is_filled, value if _is_list(value) else ())))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset)


def _is_natural(value: Any) -> bool:
    return all(map(_is_natural, value)) if _is_list(value) else not _is_number(value) or value >= 0


def _is_positive(value: Any) -> bool:
    return all(map(_is_positive, value)) if _is_list(value) else not _is_number(value) or value > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_rising(value: Any) -> bool:
    return not isinstance(value, list | tuple) or _in_order(value, 1)


def _is_falling(value: Any) -> bool:
    return not isinstance(value, list | tuple) or _in_order(value, -1)


def _in_order(value: Sequence[Any], sign: int) -> bool:
    lists = [one for one in value if isinstance(one, list | tuple)]
    if lists:
        return all(_in_order(one, sign) for one in lists)
    return not all(map(_is_number, value)) or all(sign * one <= sign * other for one, other in pairwise(value))


def _is_distinct(value: Any) -> bool:
    return not isinstance(value, list | tuple | str) or len(set(map(repr, value))) == len(value)


def _is_of_one_type(value: Any) -> bool:
    return not _is_list(value) or (len(set(map(type, value))) <= 1 and all(map(_is_of_one_type, value)))


def _is_length(value: Any, other: Any) -> bool:
    return not hasattr(other, "__len__") or (_is_number(value) and value == len(other))


def _is_within(value: Any, other: Any) -> bool:
    return not hasattr(other, "__len__") or (_is_number(value) and 0 <= value <= len(other))


def _is_member(value: Any, other: Any) -> bool:
    if isinstance(other, str):
        return isinstance(value, str) and value in other
    return not _is_list(other) or value in list(other)


def _is_as_long(value: Any, other: Any) -> bool:
    return not (hasattr(value, "__len__") and hasattr(other, "__len__")) or len(value) == len(other)
