"""Names that have to be looked up again.

Containers that are made anew together may exchange their addresses. A channel that has lost its connection then finds
another service at the address that it knows, is connected, and asks for no other: each call fails, for good. So where a
server does not know a method, every channel looks its name up again, once in a while: a server of an older version does
not know it either.
"""

import time

_EVERY, _TOGETHER = 30.0, 5.0
"""Seconds between two lookups, and in which calls that fail are of the same fault."""
_times, _last = 0, -_EVERY


def lookups() -> int:
    """Number of times; a channel that was opened before the last one is to be opened again."""
    return _times


def doubted() -> bool:
    """Says that a server did not know a method. True where the name is looked up again, so that the call may be made
    again."""
    global _times, _last
    since = time.monotonic() - _last
    if since < _EVERY:
        return since < _TOGETHER
    _times, _last = _times + 1, time.monotonic()
    return True
