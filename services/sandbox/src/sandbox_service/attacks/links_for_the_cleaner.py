"""Leaves links in its folder, so that who empties it removes what they lead to.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    os.symlink(os.path.dirname(os.__file__), "library")
    os.symlink("/", "root")
    os.mkdir("inner")
    os.symlink("..", "inner/loop")
    os.symlink("nowhere", "dangling")
    os.mkfifo("pipe")
    return 3
