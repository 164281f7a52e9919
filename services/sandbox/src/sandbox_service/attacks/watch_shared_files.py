"""Watches files and folders that all programs share: what the others open would be seen.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
"""

import ctypes
import fcntl
import os
import signal

libc = ctypes.CDLL(None, use_errno=True)
FANOTIFY = {"x86_64": 300, "aarch64": 262}[os.uname().machine]
PLACES = [os.path.dirname(os.__file__), os.__file__, "/dev", "/dev/null", "/usr", "/lib", "/", "/proc", "/tmp/.."]


def f(x):
    watcher = libc.inotify_init1(0)
    if watcher >= 0:
        for place in PLACES:
            if libc.inotify_add_watch(watcher, place.encode(), 0xFFF) >= 0:
                return 2
    if libc.syscall(FANOTIFY, 0, 0) >= 0 or libc.syscall(FANOTIFY, 0x200, 0) >= 0:
        return 2
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    for place in PLACES:
        try:
            descriptor = os.open(place, os.O_RDONLY)
        except OSError:
            continue
        for command, value in ((fcntl.F_NOTIFY, 0x8000003F), (fcntl.F_SETLEASE, fcntl.F_RDLCK)):
            try:
                fcntl.fcntl(descriptor, command, value)
                return 2
            except OSError:
                pass
    return 3
