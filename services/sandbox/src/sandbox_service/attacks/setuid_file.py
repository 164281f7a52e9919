"""Makes files that would run as somebody else.

Kind: break-out
Expect: FAILED
"""

import os
import shutil


def f(x):
    with open("program", "wb") as file:
        file.write(b"#!/bin/sh\nid -u\n")
    os.chmod("program", 0o6755)
    before = os.geteuid()
    for path in ("./program", "/usr/bin/su", "/usr/bin/sudo", "/bin/mount"):
        try:
            pid = os.posix_spawn(path, [path], {})
            if os.waitpid(pid, 0)[1] == 0 and path != "./program":
                return 2
        except OSError:
            pass
    for uid in (0, before + 1, before - 1):
        try:
            shutil.chown("program", uid)
            return 2
        except OSError:
            pass
    return 3
