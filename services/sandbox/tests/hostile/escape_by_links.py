# ruff: noqa: SIM115
"""Reaches outside by symbolic and hard links.

Expect: FAILED
"""

import os


def f(x):
    os.symlink("/etc/passwd", "/tmp/link")
    for attempt in (
        lambda: open("/tmp/link").read(),
        lambda: os.link("/etc/passwd", "/tmp/hard"),
        lambda: open("/tmp/../etc/passwd").read(),
    ):
        try:
            attempt()
            return 2
        except OSError:
            pass
    return 3
