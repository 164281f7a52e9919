"""Removes, renames and changes what it may only read.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    path = os.__file__
    for attempt in (
        lambda: os.unlink(path),
        lambda: os.rename(path, path + ".old"),
        lambda: os.rename(path, "os.py"),
        lambda: os.chmod(path, 0o777),
        lambda: os.chown(path, os.getuid(), os.getgid()),
        lambda: os.truncate(path, 0),
        lambda: os.setxattr(path, "user.mine", b"1"),
        lambda: os.rmdir(os.path.dirname(path)),
    ):
        try:
            attempt()
            return 2
        except OSError:
            pass
    return 3
