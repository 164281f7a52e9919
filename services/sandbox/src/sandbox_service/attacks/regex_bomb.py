"""A pattern that backtracks for ever.

Kind: break-out
Expect: TIME_LIMIT
"""

import re


def f(x):
    return re.match(r"(a+)+$", "a" * 64 + "b")
