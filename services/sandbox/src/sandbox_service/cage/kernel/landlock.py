"""Landlock by raw system calls (444-446): which files a process and its children may open. See landlock(7)."""

import ctypes
import os
import struct

from sandbox_service.cage.kernel import libc

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# Rights by ABI version: 1 has the first 13, 2 adds REFER, 3 TRUNCATE, 5 IOCTL_DEV.
_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
# To list a folder, and to make, move and remove what is in it, but for devices.
_MAKING = _READ_DIR | sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12, 13))


def rights() -> int:
    """All that this kernel's Landlock can withhold; 0 where it has none."""
    try:
        abi = libc.syscall(_CREATE, None, 0, 1)
    except OSError:
        return 0
    return _RIGHTS_BY_ABI[min(abi, 5)]


# Where a set of rules is while it is in use, and the folder that it is made for.
_PLACE, _FOLDER = 120, 121


class Rules:
    """What all programs of a lane may open: to read, and in one folder for whatever rights allow. Each gets a set of
    its own: no program then can look into another's process (ptrace, /proc), as to Landlock it is another's domain."""

    def __init__(self, rights: int, read: list[str], folder: str, own: str = "") -> None:
        """`own`: a file below /proc/self that each may read of itself, and of nobody else."""
        self._folder, self._own = folder, own
        rules = [rule for path in read if (rule := _readable(path, rights))]
        rules.append(_rule(rights, _FOLDER))
        self._create = libc.prepared_syscall(_CREATE, ctypes.c_char_p(struct.pack("=Q", rights)), 8, 0)
        self._adds = [libc.prepared_syscall(_ADD, _PLACE, 1, rule, 0) for rule in rules]
        self._set = ctypes.c_long()
        self._restrict = libc.prepared_syscall(_RESTRICT, self._set, 0)

    def make(self) -> int:
        """For the folder of that path as it is now. Returns a descriptor, until `drop`. Raises OSError."""
        _put(self._create(), _PLACE)
        _put(os.open(self._folder, os.O_PATH | os.O_CLOEXEC), _FOLDER)
        for add in self._adds:
            add()
        os.close(_FOLDER)
        return _PLACE

    def drop(self) -> None:
        os.close(_PLACE)

    def restrict(self, descriptor: int) -> None:
        """By what was made, under whatever number it is here. Needs no_new_privs. Raises OSError."""
        if self._own:
            self._add_own(descriptor)
        self._set.value = descriptor
        self._restrict()

    def rehearse(self, descriptor: int) -> None:
        """What Python does to `restrict`."""
        restrict, self._restrict, own, self._own = self._restrict, libc.NOTHING, self._own, ""
        self.restrict(descriptor)
        self._restrict, self._own = restrict, own

    def _add_own(self, descriptor: int) -> None:
        """The path means another file in each process, so that nobody else can add it."""
        target = os.open(self._own, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(_ADD, descriptor, 1, _rule(_READ_FILE, target), 0)
        os.close(target)


def all_of(handled: int, is_folder: bool = True) -> int:
    """All that may be done with a folder and what is below it, or with a file."""
    return handled if is_folder else handled & _FILE_RIGHTS


def reading_of(handled: int, path: str) -> int:
    """To read a folder and all below it, or a file; a device's, what programs do with it."""
    allowed = _READ & handled
    if not os.path.isdir(path):
        allowed &= _FILE_RIGHTS | (_WRITE_FILE if path.startswith("/dev/") else 0)
        allowed |= _WRITE_FILE if path in ("/dev/null", "/dev/full") else 0
    return allowed


def making_of(handled: int) -> int:
    """To list a folder, and to make, move and remove entries: not to open what is in them."""
    return handled & _MAKING


def ruleset(handled: int, paths: list[tuple[str, int]]) -> int:
    """A descriptor of rules for some paths, each with what may be done there. Raises OSError."""
    made = libc.syscall(_CREATE, struct.pack("=Q", handled), 8, 0)
    for path, allowed in paths:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(_ADD, made, 1, _rule(allowed, target), 0)
        os.close(target)
    return made


def restrict(rules: int) -> None:
    """The calling process, by a descriptor that `ruleset` made. Needs no_new_privs. Raises OSError."""
    libc.syscall(_RESTRICT, rules, 0)


def _put(descriptor: int, place: int) -> None:
    os.dup2(descriptor, place, False)
    os.close(descriptor)


def _readable(path: str, handled: int) -> ctypes.c_char_p | None:
    """Holds the path open for good. Nothing for a path that isn't there."""
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    return _rule(reading_of(handled, path), target)


def _rule(allowed: int, target: int) -> ctypes.c_char_p:
    return ctypes.c_char_p(struct.pack("=Qi", allowed, target))
