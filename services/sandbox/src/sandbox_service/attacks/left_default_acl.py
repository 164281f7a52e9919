"""Gives its folder a default ACL: what later programs make there has no rights at all.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
"""

import os
import struct


def entry(tag, permissions):
    return struct.pack("<HHI", tag, permissions, 0xFFFFFFFF)


def f(x):
    acl = struct.pack("<I", 2) + entry(0x01, 0) + entry(0x04, 0) + entry(0x20, 0)
    for folder in (".", "/tmp", "/dev/shm", "..", os.environ.get("HOME", ".")):
        for name in ("system.posix_acl_default", "system.posix_acl_access"):
            try:
                os.setxattr(folder, name, acl)
            except OSError:
                pass
    return 3
