"""Identifiers that sort by the time they were made."""

import secrets
import threading
import time
from datetime import UTC, datetime

from ratchet_kit import projects

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
_RANDOM_BITS = 80
TIME_LETTERS = 10
"""Letters of a ULID that say the time; those after them are random."""
_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """`prefix_` and a ULID (https://github.com/ulid/spec), such as `run_01JD3MZ5Y1W4C8T9Q2K7V6B0XN`; with the mark of
    the project that it is made for (projects.py).

    48 bits of milliseconds, then 80 random bits. Ids made by one process sort in the order they were made, also within
    a millisecond (the spec's monotonic form); those of several processes sort by their clocks.
    """
    global _last
    fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    with _lock:
        same_or_earlier = fresh >> _RANDOM_BITS <= _last >> _RANDOM_BITS
        _last = value = _last + 1 if same_or_earlier else fresh
    ulid = "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))
    return f"{prefix}_{ulid}{projects.suffix()}"


def passed_on(text: str) -> str:
    """A caller's id as it goes on in logs and in the metadata of calls: 100 characters at most. Empty where it holds
    something else than printable ASCII, which metadata cannot carry."""
    return text[:100] if text.isascii() and text.isprintable() else ""


def time_of(id: str) -> datetime | None:
    """When `new_id` made it, to the millisecond; None for what it has not made."""
    ulid = id.rpartition("_")[2].partition("-")[0]
    if len(ulid) != 26 or not set(ulid) <= set(_ALPHABET):
        return None
    value = 0
    for letter in ulid:
        value = value << 5 | _ALPHABET.index(letter)
    try:
        return datetime.fromtimestamp((value >> _RANDOM_BITS) / 1000, UTC)
    except (ValueError, OverflowError):  # a year that there is not
        return None
