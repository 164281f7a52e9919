"""JSON that users wrote: read, or refused in a sentence."""

import json
from collections import Counter
from functools import partial
from typing import Any

from ratchet_kit.text import clip

MOST_DIGITS = 100_000
"""Of a whole number. Python itself reads 4,300."""
_AT_ONCE = 4_000


class NotJson(ValueError):
    """What is wrong, and where."""


def read(text: str | bytes, *, most_digits: int = MOST_DIGITS, constants: bool = True) -> Any:
    """The value of a text, which may begin with a byte-order mark. `constants`: NaN and Infinity are taken, which JSON
    does not have. Raises NotJson, also for a name that an object has twice."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        loads = partial(
            json.loads,
            text.removeprefix("\ufeff"),
            parse_constant=None if constants else _refuse,
            object_pairs_hook=_object,
        )
        try:
            return loads()
        except (json.JSONDecodeError, NotJson):
            raise
        except ValueError:  # a number has more digits than Python reads
            return loads(parse_int=partial(whole, most=most_digits))
    except UnicodeDecodeError as error:
        raise NotJson(f"is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise NotJson(f"is not JSON at {line}column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise NotJson("is nested too deeply") from error


def whole(digits: str, most: int = MOST_DIGITS) -> int:
    """A number of decimal digits, with or without a sign. Halved, so that a long one takes less than the square of its
    length. Raises NotJson for more digits than `most`."""
    if len(digits) <= _AT_ONCE:
        return int(digits)
    if len(digits) > most:
        raise NotJson(f"has a whole number of {len(digits)} digits; at most {most} are allowed")
    if digits[0] == "-":
        return -whole(digits[1:], most)
    half = len(digits) // 2
    scale: int = 10**half
    return whole(digits[:-half], most) * scale + whole(digits[-half:], most)


def _refuse(constant: str) -> None:
    raise NotJson(f"{constant} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise NotJson(f"has {clip(repr(name), 100)} twice in one object")
    return found
