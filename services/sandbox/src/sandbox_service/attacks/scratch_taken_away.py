"""Takes the rights on its own folder away from everybody.

Kind: break-out
Expect: FAILED
"""

import os


def f(x):
    os.mkdir("inner")
    os.chmod("inner", 0)
    os.chmod(".", 0)
    return 3
