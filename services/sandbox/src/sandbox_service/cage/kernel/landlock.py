"""Landlock by raw system calls (444-446): which files this process and its children may open. See landlock(7)."""

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


def restrict(read: list[str | int], write: list[str]) -> bool:
    """Paths, or descriptors of folders. Needs no_new_privs. False where the kernel has no Landlock.

    Raises OSError where it refuses.
    """
    try:
        abi = libc.syscall(_CREATE, None, 0, 1)
    except OSError:
        return False
    handled = _RIGHTS_BY_ABI[min(abi, 5)]
    attributes = struct.pack("=Q", handled)
    rules = libc.syscall(_CREATE, ctypes.c_char_p(attributes), len(attributes), 0)
    try:
        for path in read:
            _allow(rules, path, _READ & handled)
        for path in write:
            _allow(rules, path, handled)
        libc.syscall(_RESTRICT, rules, 0)
    finally:
        os.close(rules)
    return True


def _allow(rules: int, path: str | int, rights: int) -> None:
    if isinstance(path, int):
        rule = struct.pack("=Qi", rights, path)
        libc.syscall(_ADD, rules, 1, ctypes.c_char_p(rule), 0)
        return
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _FILE_RIGHTS | (_WRITE_FILE if path.startswith("/dev/") else 0)
            rights |= _WRITE_FILE if path == "/dev/null" else 0
        rule = struct.pack("=Qi", rights, target)
        libc.syscall(_ADD, rules, 1, ctypes.c_char_p(rule), 0)
    finally:
        os.close(target)
