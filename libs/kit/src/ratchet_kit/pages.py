"""Pages of a list: the token that says where the next one starts, and the size a caller may ask for."""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ratchet_kit import projects
from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_kit.text import storable
from ratchet_kit.work import surviving

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the token of the next page: empty after the last."""

    items: Sequence[T]
    next_page_token: str = ""

    def map(self, convert: Callable[[T], U]) -> "Page[U]":
        """What `convert` makes of the items, without those that it raises for: each is logged and counted."""
        converted = list[U]()
        for number, item in enumerate(self.items):
            with surviving("convert item", kind=type(item).__name__, key=str(getattr(item, "id", number))):
                converted.append(convert(item))
        return Page(converted, self.next_page_token)


def encode_token(position: Any) -> str:
    """An opaque, URL-safe token of `position`: anything JSON holds, such as the last id of the page."""
    text = json.dumps(position, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str) -> Any:
    """The position that a token holds, None for the empty token (the first page).

    Raises:
        InvalidArgument: the token is not one that `encode_token` made.
    """
    if not token:
        return None
    try:
        padded = token + "=" * (-len(token) % 4)
        return json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        violation = FieldViolation("page_token", "is not a token that a list returned")
        raise InvalidArgument("page_token is not valid", [violation]) from error


def page_size(requested: int, default: int = 50, maximum: int = 1000) -> int:
    """The size to use for a requested one: 0 means the default, more than the maximum means the maximum.

    Raises:
        InvalidArgument: `requested` is negative (https://google.aip.dev/158).
    """
    if requested < 0:
        raise InvalidArgument("page_size is negative", [FieldViolation("page_size", "must not be negative")])
    return min(requested or default, maximum)


LOOKED_THROUGH = 200
"""Items at a time of a list in which many are another project's."""


async def fetch_page(
    fetch: Callable[[int, K | None], Awaitable[Sequence[T]]],
    key: Callable[[T], K],
    kind: type[K] | tuple[type, ...],
    size: int,
    token: str,
) -> Page[T]:
    """A page by keyset: `fetch(limit, after)` gives items behind the one whose key is `after`, None for the first page.
    Items of a project that the present call does not see (projects.py) are left out, by their keys.
    `kind`: of keys; for keys that are lists, what such a list holds.

    Raises:
        InvalidArgument: the size is negative, or the token is not one of this list.
    """
    after = decode_token(token)
    if after is not None and not _is_of(after, kind):
        violation = FieldViolation("page_token", "is not a token that this list returned")
        raise InvalidArgument("page_token is not valid", [violation])
    limit = page_size(size)
    seen, wanted = list[T](), limit + 1
    while True:
        items = await fetch(wanted, after)
        seen += [item for item in items if _is_seen(key(item))]
        if len(seen) > limit or len(items) < wanted:
            break
        after, wanted = key(items[-1]), max(limit + 1, LOOKED_THROUGH)
    more = encode_token(key(seen[limit - 1])) if len(seen) > limit else ""
    return Page(seen[:limit], more)


def _is_seen(position: Any) -> bool:
    """A key is an id or a name, or begins with one."""
    first = position[0] if isinstance(position, list) else position
    return not isinstance(first, str) or projects.is_seen(first)


def _is_of(position: Any, kind: type | tuple[type, ...]) -> bool:
    """A token is the caller's: true is no number here, and a database holds neither every number nor every text."""
    if isinstance(kind, type):
        return type(position) is kind and _is_storable(position)
    return isinstance(position, list) and tuple(map(type, position)) == kind and all(map(_is_storable, position))


def _is_storable(value: object) -> bool:
    match value:
        case int():
            return abs(value) < 1 << 63
        case str():
            return storable(value) == value
        case _:
            return True
