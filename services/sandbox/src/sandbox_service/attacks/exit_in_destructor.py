"""Leaves with success when its objects are removed.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
"""

import os


class Last:
    def __del__(self):
        os._exit(0)


KEPT = [Last()]


def f(x):
    KEPT.append(Last())
    KEPT.append(KEPT)
    return 3
