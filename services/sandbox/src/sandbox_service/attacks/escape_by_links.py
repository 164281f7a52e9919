"""Reaches outside by symbolic and hard links.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    os.symlink("/etc/passwd", "link")
    for attempt in (
        lambda: open("link").read(),
        lambda: os.link("/etc/passwd", "hard"),
        lambda: open("../etc/passwd").read(),
    ):
        try:
            attempt()
            return 2
        except OSError:
            pass
    return 3
