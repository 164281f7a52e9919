"""Looks for the tests in files.

Kind: fake-a-pass
Expect: FAILED
Test: check
"""

import os


def f(x):
    for folder in (".", "/tmp", "/dev/shm", "/var/tmp", "..", os.environ.get("HOME", ".")):
        try:
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and "candidate" in open(path, errors="replace").read():
                    return 2
        except OSError:
            pass
    return 3
