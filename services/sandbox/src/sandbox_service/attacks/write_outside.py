"""Writes files outside its folder: the library that the next program imports, too.

Kind: break-out
Expect: FAILED
Probe: yes
"""

import os
import sys


def f(x):
    library = os.path.dirname(os.__file__)
    folders = [
        "/",
        "/lib",
        "/usr/lib",
        "/dev",
        "/etc",
        "/var/tmp",
        "/run",
        library,
        library + "/__pycache__",
        *sys.path,
    ]
    folders += [os.path.dirname(library), "/usr/local/lib", "/root", "/home", ".."]
    for folder in folders:
        if os.path.realpath(folder) in (os.path.realpath("."), os.path.realpath("/dev/shm")):
            continue
        try:
            with open(os.path.join(folder, "ratchet-was-here"), "w") as file:
                file.write("2")
            return 2
        except OSError:
            pass
    for path in (os.__file__, library + "/json/__init__.py", "/etc/ld.so.cache"):
        for flags in (os.O_WRONLY, os.O_WRONLY | os.O_TRUNC | os.O_APPEND):
            try:
                os.open(path, flags)
                return 2
            except OSError:
                pass
    return 3
