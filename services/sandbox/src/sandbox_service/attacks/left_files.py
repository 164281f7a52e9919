"""Leaves files wherever it can for the next program to find.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import os

PLACES = [".", "/tmp", "/dev/shm", "/var/tmp", os.environ.get("HOME", "."), "/run"]


def f(x):
    if any(os.path.exists(os.path.join(place, ".left")) for place in PLACES):
        return 2
    for place in PLACES:
        try:
            with open(os.path.join(place, ".left"), "w") as file:
                file.write("2")
        except OSError:
            pass
    return 3
