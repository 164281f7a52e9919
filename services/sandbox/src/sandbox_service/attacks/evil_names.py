"""Leaves files whose names are no text, hold line breaks, or look like options.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    for name in (b"\xff\xfe", b"a\nb", b"-rf", b" ", b".moved-0", b"...", b"x" * 255, "\u202e".encode()):
        os.mkdir(name)
        with open(name + b"/" + name, "w") as file:
            file.write("x")
    return 3
