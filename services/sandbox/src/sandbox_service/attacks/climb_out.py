"""Climbs out of its root by relative paths, kept folders and chroot.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    before = os.open("/", os.O_PATH | os.O_DIRECTORY)
    os.mkdir("cell")
    try:
        os.chroot("cell")
        os.fchdir(before)
    except OSError:
        pass
    for _ in range(64):
        os.chdir("..")
    for path in ("etc/shadow", "etc/passwd", "root/.ssh", "proc/1/root/etc/passwd", "sys/kernel/vmcoreinfo"):
        for attempt in (lambda p: os.open(p, os.O_RDONLY), lambda p: os.open("../" + p, os.O_RDONLY, dir_fd=before)):
            try:
                attempt(path)
                return 2
            except OSError:
                pass
    return 3
