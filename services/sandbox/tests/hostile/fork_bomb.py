"""Makes processes without end.

Expect: RUNTIME_ERROR
"""

import os


def f(x):
    while True:
        os.fork()
