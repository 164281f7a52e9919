"""The index of a git repository, without the marks by which it has git believe that a file is unchanged.

The form is that of git's own page gitformat-index(5), of repositories with SHA-1.
"""

import hashlib
import struct

from ratchet_kit.errors import InvalidArgument

_MOST_ENTRIES = 200_000
_HEAD = struct.Struct(">4sII")
_FLAGS_AT, _ENTRY, _SUM = 60, 62, 20  # bytes: before an entry's flags, with them, and of the sum at the end
_ASSUME_UNCHANGED, _EXTENDED, _SKIP_WORKTREE = 0x8000, 0x4000, 0x4000
"""Bits of the flags, and the last one of the flags that extend them."""


def without_marks(content: bytes) -> bytes:
    """Raises InvalidArgument for what is no index."""
    found = bytearray(content)
    try:
        signature, version, entries = _HEAD.unpack_from(found)
        if signature != b"DIRC" or version not in (2, 3, 4) or entries > _MOST_ENTRIES:
            raise InvalidArgument("no index of git")
        at = _HEAD.size
        for _ in range(entries):
            at = _next(found, at, version)
    except (struct.error, IndexError, ValueError) as error:
        raise InvalidArgument(f"no index of git: {error}") from error
    if found[:-_SUM] == content[:-_SUM]:
        return content
    found[-_SUM:] = hashlib.sha1(found[:-_SUM], usedforsecurity=False).digest()
    return bytes(found)


def _next(index: bytearray, start: int, version: int) -> int:
    """Where the next entry begins. Takes the marks off this one."""
    is_extended = _take_off(index, start + _FLAGS_AT, _ASSUME_UNCHANGED) & _EXTENDED
    name = start + _ENTRY
    if is_extended:
        _take_off(index, name, _SKIP_WORKTREE)
        name += 2
    if version == 4:
        while index[name] & 0x80:  # a number, and then what the name ends with
            name += 1
        return index.index(0, name + 1) + 1
    length = index.index(0, name) - start
    return start + (length // 8 + 1) * 8


def _take_off(index: bytearray, at: int, mark: int) -> int:
    """The flags as they were."""
    (flags,) = struct.unpack_from(">H", index, at)
    struct.pack_into(">H", index, at, flags & ~mark)
    return int(flags)
