"""Makes processes without end.

Kind: overspend
Expect: RUNTIME_ERROR
"""

import os


def f(x):
    while True:
        os.fork()
