"""Reads about processes in /proc: their memory, files, environments.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    for pid in ("self", "thread-self", "1", str(os.getppid()), str(os.getpid())):
        for name in ("mem", "maps", "environ", "cmdline", "status", "root/etc/passwd", "fd", "auxv"):
            path = f"/proc/{pid}/{name}"
            try:
                os.listdir(path) if name == "fd" else os.close(os.open(path, os.O_RDONLY))
                return 2
            except OSError:
                pass
    return 3
