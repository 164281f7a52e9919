"""Landlock by raw system calls (444-446): which files a process and its children may open. See landlock(7)."""

import ctypes
import os
import struct

from kernel import libc

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# Rights by ABI version: 1 has the first 13, 2 adds REFER, 3 TRUNCATE, 5 IOCTL_DEV.
_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15


def rights() -> int:
    """All that this kernel's Landlock can withhold; 0 where it has none."""
    try:
        abi = libc.syscall(_CREATE, None, 0, 1)
    except OSError:
        return 0
    return _RIGHTS_BY_ABI[min(abi, 5)]


class Rules:
    """What all programs of a lane may read. Each gets a set of its own: no program then can look into another's process
    (ptrace, /proc), as to Landlock it is another's domain."""

    def __init__(self, rights: int, read: list[str]) -> None:
        self._handled = rights
        self._attributes = ctypes.c_char_p(struct.pack("=Q", rights))
        self._readable = [rule for path in read if (rule := _readable(path, rights))]

    def make(self, folder: str) -> int:
        """The descriptor of a set of rules: to read, and to do in `folder` whatever rights allow. Raises OSError."""
        rules = libc.syscall(_CREATE, self._attributes, 8, 0)
        for rule in self._readable:
            libc.syscall(_ADD, rules, 1, rule, 0)
        own = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(_ADD, rules, 1, _rule(self._handled, own), 0)
        os.close(own)
        return rules


def restrict(rules: int) -> None:
    """Needs no_new_privs. Raises OSError."""
    libc.syscall(_RESTRICT, rules, 0)


def _readable(path: str, handled: int) -> ctypes.c_char_p | None:
    """Holds the path open for good. Nothing for a path that isn't there."""
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    allowed = _READ & handled
    if not os.path.isdir(path):
        allowed &= _FILE_RIGHTS | (_WRITE_FILE if path.startswith("/dev/") else 0)
        allowed |= _WRITE_FILE if path == "/dev/null" else 0
    return _rule(allowed, target)


def _rule(allowed: int, target: int) -> ctypes.c_char_p:
    return ctypes.c_char_p(struct.pack("=Qi", allowed, target))
