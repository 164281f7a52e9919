"""Changes modes, times and attributes of what lies beside its folder and of what it runs on.

Kind: break-out
Expect: FAILED, RUNTIME_ERROR
"""

import os
import struct
import sys

ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 7, 0xFFFFFFFF) for tag in (1, 4, 32))


def places():
    here = os.path.realpath(".")
    for path in {
        os.path.dirname(here),
        "/var/tmp",
        "/dev",
        "/etc/passwd",
        sys.executable,
        os.__file__,
        os.path.expanduser("~"),
    }:
        if path != here:
            yield path
            try:
                yield from (os.path.join(path, name) for name in os.listdir(path)[:20])
            except OSError:
                pass


def f(x):
    here = os.path.realpath(".")
    for path in places():
        if path == here or here.startswith(path + "/") and path in ("/", "/tmp"):
            continue
        try:
            info = os.stat(path)
        except OSError:
            continue
        for act in (
            lambda: os.chmod(path, info.st_mode & 0o7777),
            lambda: os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns)),
            lambda: os.setxattr(path, "user.mark", b"2"),
            lambda: os.setxattr(path, "system.posix_acl_default", ACL),
            lambda: os.chown(path, info.st_uid, info.st_gid),
        ):
            try:
                act()
            except OSError:
                continue
            if not path.startswith("/dev"):
                return 2
    return 3
