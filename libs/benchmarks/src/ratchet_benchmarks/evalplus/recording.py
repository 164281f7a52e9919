"""How an answer of a reference is kept: pasted into the program that records them (truth.py)."""

from collections.abc import Callable
from typing import Any

_LONG = 400
"""Characters; a longer one is kept as its digest."""


def expected(
    answer: Any,
    digest: Callable[[Any], str],
    floats: Callable[[Any], bool],
    tolerance: float,
    only_something: bool,
) -> str:
    """A Python literal of it, or `Digest(...)`, where equal is the only rule."""
    if only_something:
        return repr(answer is not None)
    text = hex(answer) if type(answer) is int and abs(answer) >> 1000 else repr(answer)
    if len(text) > _LONG and not tolerance and not floats(answer):
        try:
            return f"Digest({digest(answer)!r})"
        except TypeError:
            pass  # it holds something that has no such text
    return text
