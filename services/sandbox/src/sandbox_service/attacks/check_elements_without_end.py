"""Returns an iterator of the library that never ends, for a test that adds up what it gives.

Kind: deny
Expect: TIME_LIMIT
Test: check
Check: assert sum(candidate(1)) == 2
"""

import itertools


def f(x):
    return itertools.count(x)
