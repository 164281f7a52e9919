"""Python with less than this process has: as another user, without namespaces or without Landlock (x86-64)."""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import sysconfig

NOBODY = 65534
UNSHARE, MOUNT, LANDLOCK = 272, 165, 444
"""System calls that Docker's default seccomp profile refuses, the first two; numbers of x86-64."""
# Where nobody may read what runs this, the machine's own python can stand in.
_PYTHONS = (os.path.realpath(sys.executable), "/usr/bin/python3")


def deny(*numbers: int) -> None:
    """From here on these system calls answer EPERM, to this process and to all that it starts. Raises OSError."""

    def instruction(code: int, k: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, jump_true, jump_false, k)

    steps = [instruction(0x20, 0)]
    for number in numbers:
        steps += [instruction(0x15, number, 0, 1), instruction(0x06, 0x00050001)]
    code = b"".join([*steps, instruction(0x06, 0x7FFF0000)])
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    for arguments in ((38, ctypes.c_ulong(1), zero), (22, ctypes.c_ulong(2), ctypes.c_char_p(program))):
        if libc.prctl(*arguments, zero, zero):
            raise OSError(ctypes.get_errno(), "prctl refused")


def python_as_nobody(probe: str) -> list[str]:
    """How to start a python as nobody, or as this user who isn't root, that can import what this one can.

    `probe`: a module that it must be able to import. Raises LookupError where there's none.
    """
    own = sysconfig.get_path("stdlib")
    path = ":".join(entry for entry in sys.path if os.path.isdir(entry) and not entry.startswith(own))
    environment = ["env", f"PYTHONPATH={path}", "PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp"]
    if os.geteuid() != 0:
        return [*environment, _PYTHONS[0]]
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise LookupError("there is no setpriv to become another user with")
    become = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *environment]
    for one in _PYTHONS:
        if subprocess.run([*become, one, "-c", f"import {probe}"], capture_output=True).returncode == 0:
            return [*become, one]
    raise LookupError("no python here that another user can run")
