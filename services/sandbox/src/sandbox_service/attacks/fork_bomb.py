"""Makes processes without end.

Kind: break-out
Expect: RUNTIME_ERROR
"""

import os


def f(x):
    while True:
        os.fork()
