"""How a reference's answers are kept: pasted into the program that records them (truth.py)."""

import json
from collections.abc import Callable, Sequence
from typing import Any

_LONG = 400
"""Characters; a longer one is kept as its digest."""


_MOST = 15 << 20
"""Bytes that an answer may come to on its way from a program to its tests: 16 MiB cross at once."""


def fits(answer: Any) -> bool:
    """True where such an answer can cross."""
    room, todo = _MOST, [answer]
    while todo and room > 0:
        value = todo.pop()
        if isinstance(value, dict):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            todo += value
        room -= len(value) + 4 if isinstance(value, str) else value.bit_length() // 3 + 3 if type(value) is int else 8
    return room > 0


def plain(answer: Any) -> Any:
    """Equal to it, of Python's own types: a Counter is a dict, whose repr any reader knows."""
    if isinstance(answer, dict):
        return {plain(key): plain(item) for key, item in answer.items()}
    for kind in (list, tuple, set, frozenset):
        if isinstance(answer, kind):
            return kind(map(plain, answer))
    return answer


def marked(
    answer: Any,
    digest: Callable[[Any], str],
    floats: Callable[[Any], bool],
    tolerance: float,
    only_something: bool,
) -> Any:
    """The answer, or `{"digest": ...}` for a long one, where equal is the only rule."""
    if only_something:
        return answer is not None
    answer = plain(answer)
    if not tolerance and not floats(answer) and _is_long(answer):
        try:
            return {"digest": digest(answer)}
        except TypeError:
            pass  # it holds something that has no such text
    return answer


def _is_long(answer: Any) -> bool:
    if type(answer) is int:
        return answer.bit_length() > 1000
    return (isinstance(answer, str | list | tuple) and len(answer) > _LONG) or len(repr(answer)) > _LONG


def expression(answers: Sequence[Any]) -> str:
    """Python for them. JSON in a text where that holds them: it is read several times faster."""
    try:
        text = json.dumps(answers)
        if repr(json.loads(text)) == repr(answers):
            return f"json.loads({text!r}, object_hook=unmarked)"
    except (TypeError, ValueError):
        pass  # a set, a complex number
    return f"[{', '.join(map(_literal, answers))}]"


def _literal(answer: Any) -> str:
    if type(answer) is dict and answer.keys() == {"digest"}:
        return f"Digest({answer['digest']!r})"
    return hex(answer) if type(answer) is int else repr(answer)
